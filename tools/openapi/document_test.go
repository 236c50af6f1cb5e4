// Package openapi checks docs/openapi.yaml with third-party tools, and uses clients that are generated from it. It is a
// module of its own, so that the service doesn't depend on the tools. scripts/check-openapi.sh runs its tests.
package openapi

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

const document = "../../docs/openapi.yaml"

// TestDocumentIsValid holds the document against the schema of OpenAPI 3.0, which the OpenAPI Initiative publishes at
// https://spec.openapis.org/oas/3.0/schema/2021-09-28 under the Apache License 2.0.
func TestDocumentIsValid(t *testing.T) {
	t.Parallel()
	schema, err := jsonschema.NewCompiler().Compile("testdata/openapi-3.0.json")
	require.NoError(t, err)
	var value any
	require.NoError(t, read(t).Decode(&value))
	require.NoError(t, schema.Validate(value))
}

// TestDocumentSuitsGenerators checks for constructs that validators accept and generators misinterpret.
func TestDocumentSuitsGenerators(t *testing.T) {
	t.Parallel()
	visit(t, read(t), "")
}

func read(t *testing.T) *yaml.Node {
	t.Helper()
	text, err := os.ReadFile(document)
	require.NoError(t, err)
	var root yaml.Node
	require.NoError(t, yaml.Unmarshal(text, &root))
	return &root
}

// visit checks a node that is at a path of the document.
func visit(t *testing.T, n *yaml.Node, path string) {
	t.Helper()
	require.NotEqual(t, yaml.AliasNode, n.Kind, "line %d: JSON has no aliases", n.Line)
	if n.Kind != yaml.MappingNode {
		for _, child := range n.Content {
			visit(t, child, path)
		}
		return
	}
	members := map[string]*yaml.Node{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i].Value
		members[key] = n.Content[i+1]
		visit(t, n.Content[i+1], path+"/"+key)
	}
	checkSchema(t, members, fmt.Sprintf("line %d, %s", n.Line, path))
}

func checkSchema(t *testing.T, members map[string]*yaml.Node, at string) {
	t.Helper()
	kind := members["type"]
	if strings.Contains(at, "/components/schemas/") {
		require.Nil(t, members["default"], "%s: some generators make a member with a default a required one", at)
	}
	if members["nullable"] != nil {
		require.NotNil(t, kind, "%s: nullable has no meaning without a type", at)
	}
	if kind != nil && (kind.Value == "number" || kind.Value == "integer") {
		require.NotNil(t, members["format"], "%s: some generators use 32 bits for a number without a format", at)
	}
	if members["oneOf"] == nil {
		return
	}
	for _, choice := range members["oneOf"].Content {
		named := len(choice.Content) == 2 && strings.HasPrefix(choice.Content[1].Value, "#/")
		require.True(t, named, "%s: a choice without a name cannot be set in generated clients", at)
	}
}
