package server_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/test/servertest"
)

// TestRoutesMatchTheContract compares the routes with docs/openapi.yaml, but for those that others describe.
func TestRoutesMatchTheContract(t *testing.T) {
	t.Parallel()
	doc, err := servertest.Contract()
	require.NoError(t, err)
	var documented, registered []string
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			documented = append(documented, method+" "+path)
		}
	}
	parameter := regexp.MustCompile(`:(\w+)`)
	for _, route := range servertest.Start(t, servertest.WithQueues()).Routes() {
		if route.Method != http.MethodHead && !servertest.Foreign.MatchString(route.Path) {
			registered = append(registered, route.Method+" "+parameter.ReplaceAllString(
				strings.Replace(route.Path, "*", "{path}", 1), "{$1}"))
		}
	}
	require.ElementsMatch(t, documented, registered)
}

// TestContractUses checks that docs/openapi.yaml has no component without use.
func TestContractUses(t *testing.T) {
	t.Parallel()
	doc, err := servertest.Contract()
	require.NoError(t, err)
	text, err := os.ReadFile("../docs/openapi.yaml")
	require.NoError(t, err)
	var used []string
	for _, m := range regexp.MustCompile(`\$ref: "#/components/(\w+/[\w-]+)"`).FindAllStringSubmatch(string(text), -1) {
		used = append(used, m[1])
	}
	for _, scheme := range doc.Security {
		for name := range scheme {
			used = append(used, "securitySchemes/"+name)
		}
	}
	var components map[string]map[string]any // by section and name
	written, err := json.Marshal(doc.Components)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(written, &components))
	for section, all := range components {
		for name := range all {
			require.Contains(t, used, section+"/"+name)
		}
	}
}

// TestContractDescribes checks that docs/openapi.yaml describes each operation, parameter, header, schema and property.
func TestContractDescribes(t *testing.T) {
	t.Parallel()
	doc, err := servertest.Contract()
	require.NoError(t, err)
	for name, schema := range doc.Components.Schemas {
		require.NotEmpty(t, schema.Value.Description, name)
		requireDescribed(t, name, schema)
	}
	for name, header := range doc.Components.Headers {
		require.NotEmpty(t, header.Value.Description, name)
	}
	for path, item := range doc.Paths.Map() {
		for method, operation := range item.Operations() {
			require.NotEmpty(t, operation.Summary, "%s %s", method, path)
			require.NotEmpty(t, operation.Description, "%s %s", method, path)
			for _, p := range slices.Concat(item.Parameters, operation.Parameters) {
				require.NotEmpty(t, p.Value.Description, "%s %s: %s", method, path, p.Value.Name)
			}
			if operation.RequestBody != nil {
				for _, body := range operation.RequestBody.Value.Content {
					requireDescribed(t, method+" "+path, body.Schema)
				}
			}
			for _, response := range operation.Responses.Map() {
				for _, body := range response.Value.Content {
					requireDescribed(t, method+" "+path, body.Schema)
				}
			}
		}
	}
}

// requireDescribed expects a description of each property of a schema. Those of other schemas are theirs.
func requireDescribed(t *testing.T, name string, schema *openapi3.SchemaRef) {
	t.Helper()
	if schema == nil || schema.Ref != "" {
		return
	}
	for key, property := range schema.Value.Properties {
		if property.Ref == "" {
			require.NotEmpty(t, property.Value.Description, "%s: %s", name, key)
		}
		requireDescribed(t, name+": "+key, property)
	}
	requireDescribed(t, name, schema.Value.Items)
}

// TestSlugsMatchTheContract compares the slugs of package fault, of the problem's schema and of x-problems.
func TestSlugsMatchTheContract(t *testing.T) {
	t.Parallel()
	doc, err := servertest.Contract()
	require.NoError(t, err)
	var enumerated []fault.Slug
	for _, value := range doc.Components.Schemas["Problem"].Value.Properties["type"].Value.Enum {
		enumerated = append(enumerated, fault.Slug(strings.TrimPrefix(fmt.Sprint(value), client.TypePrefix)))
	}
	overGRPC := []fault.Slug{ // only the calls of Open Match's API answer with these
		fault.SlugQueueDirector, fault.SlugInvalidBackfill, fault.SlugNoBackfill, fault.SlugBackfillExpired,
		fault.SlugBackfillTooLarge, fault.SlugManyBackfills,
	}
	kinds := make(map[fault.Slug][]fault.Kind)
	for _, e := range fault.List() {
		if !slices.Contains(overGRPC, e.Slug) {
			kinds[e.Slug] = e.Kinds
		}
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(kinds)), enumerated)

	used := []fault.Slug{ // on every path
		fault.SlugNoPath, fault.SlugMethod, fault.SlugCrossOrigin, fault.SlugUnknownHost, fault.SlugInvalidRequest,
		fault.SlugKeysUnavailable,
	}
	// No path of the document answers with this: calls of Go do.
	used = append(used, fault.SlugManySubscribers)
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			if slices.Contains(op.Tags, "predecessor") {
				continue
			}
			for status := range op.Responses.Map() {
				code, err := strconv.Atoi(status)
				require.NoError(t, err)
				slugs := servertest.SlugsOf(t, op, code)
				require.Equal(t, code >= 400, len(slugs) > 0, "%s %s %d", method, path, code)
				used = append(used, slugs...)
				for _, slug := range slugs {
					require.True(t,
						slices.ContainsFunc(kinds[slug], func(k fault.Kind) bool { return web.StatusOf(k) == code }),
						"%s %s: %s is never answered with %d", method, path, slug, code)
				}
			}
		}
	}
	slices.Sort(used)
	require.ElementsMatch(t, enumerated, slices.Compact(used))
}
