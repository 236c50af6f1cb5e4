package server_test

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/server"
	"github.com/tidemark-dev/tidemark/server/web"
	"github.com/tidemark-dev/tidemark/wire"
)

// contract is docs/openapi.yaml.
var contract = sync.OnceValues(func() (*openapi3.T, error) {
	loader := openapi3.NewLoader()
	doc, err := loader.LoadFromFile("../docs/openapi.yaml")
	if err != nil {
		return nil, err
	}
	if err := doc.Validate(loader.Context, openapi3.EnableExamplesValidation()); err != nil {
		return nil, err
	}
	doc.Components.Schemas["Content"].Value.Nullable = true // any value, in OpenAPI; the library excludes null
	return doc, nil
})

// checkContract checks that docs/openapi.yaml allows an answer.
func checkContract(t testing.TB, method, path string, a answer) {
	t.Helper()
	doc, err := contract()
	require.NoError(t, err)
	if method == http.MethodOptions || foreign.MatchString(path) {
		return
	}
	op := operation(doc, method, path)
	if general := generalAnswer(doc, path, a); general != nil {
		op = general
	}
	request := &http.Request{Method: method, URL: &url.URL{Path: path}}
	err = openapi3filter.ValidateResponse(t.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{
			Request: request, Route: &routers.Route{Spec: doc, Path: path, Method: method, Operation: op},
		},
		Status: a.status, Header: a.header, Body: io.NopCloser(bytes.NewReader(a.body)),
		Options: &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true},
	})
	require.NoError(t, err, "%s %s: %d %s", method, path, a.status, a.body)
	if a.status == http.StatusNoContent || method == http.MethodHead {
		require.Empty(t, a.body)
	}
	if a.header.Get("Content-Type") == wire.MediaProblem && method != http.MethodHead {
		p := decode[wire.Problem](a)
		require.Contains(t, slugsOf(t, op, a.status), p.Slug(), "x-problems of %s %s %d", method, path, a.status)
	}
}

// generalAnswer returns an operation with one of the answers that any request can get, or nil if a isn't one of them.
func generalAnswer(doc *openapi3.T, path string, a answer) *openapi3.Operation {
	var name string
	var slug fault.Slug
	switch {
	case a.status == http.StatusForbidden && bytes.Contains(a.body, []byte(fault.SlugCrossOrigin)):
		name, slug = "CrossOrigin", fault.SlugCrossOrigin
	case a.status == http.StatusNotFound && bytes.Contains(a.body, []byte(fault.SlugNoPath)):
		name, slug = "NotFound", fault.SlugNoPath
	case a.status == http.StatusMethodNotAllowed:
		name, slug = "MethodNotAllowed", fault.SlugMethod
	case a.status == http.StatusMisdirectedRequest:
		name, slug = "UnknownHost", fault.SlugUnknownHost
	case a.status == http.StatusServiceUnavailable && bytes.Contains(a.body, []byte(fault.SlugOverloaded)):
		name, slug = "Unavailable", fault.SlugOverloaded
	default:
		return nil
	}
	return oneAnswer(doc, path, a.status, name, slug)
}

// oneAnswer returns an operation that has one answer.
func oneAnswer(doc *openapi3.T, path string, status int, name string, slug fault.Slug) *openapi3.Operation {
	if strings.HasPrefix(path, "/channel/") || strings.HasPrefix(path, "/probe/") {
		name = "Old" + name
	}
	return &openapi3.Operation{
		Responses:  openapi3.NewResponses(openapi3.WithStatus(status, doc.Components.Responses[name])),
		Extensions: map[string]any{"x-problems": map[string]any{strconv.Itoa(status): []any{string(slug)}}},
	}
}

// operation returns the operation of a request. If there is none, the operation has the answer to such requests.
func operation(doc *openapi3.T, method, path string) *openapi3.Operation {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	item := pathItem(doc, path)
	if item != nil && item.GetOperation(method) != nil {
		return item.GetOperation(method)
	}
	status, name, slug := http.StatusNotFound, "NotFound", fault.SlugNoPath
	if item != nil {
		status, name, slug = http.StatusMethodNotAllowed, "MethodNotAllowed", fault.SlugMethod
	}
	return oneAnswer(doc, path, status, name, slug)
}

// pathItem returns the path with the same segments, apart from its parameters.
func pathItem(doc *openapi3.T, path string) *openapi3.PathItem {
	segments := strings.Split(path, "/")
	for _, template := range doc.Paths.InMatchingOrder() {
		want := strings.Split(template, "/")
		if slices.EqualFunc(want, segments, func(w, s string) bool { return w == s || strings.HasPrefix(w, "{") }) &&
			(segments[len(segments)-1] != "" || path == template) {
			return doc.Paths.Find(template)
		}
	}
	return nil
}

func slugsOf(t testing.TB, op *openapi3.Operation, status int) []fault.Slug {
	t.Helper()
	byStatus, ok := op.Extensions["x-problems"].(map[string]any)
	require.True(t, ok, "%s has no x-problems", op.OperationID)
	list, _ := byStatus[strconv.Itoa(status)].([]any)
	slugs := make([]fault.Slug, len(list))
	for i, slug := range list {
		slugs[i] = fault.Slug(fmt.Sprint(slug))
	}
	return slugs
}

// foreign are the routes that Open Match's .proto files describe, gRPC's own, and those for go tool pprof.
var foreign = regexp.MustCompile(`^/(openmatch|grpc)\.|^/v1/(frontend|query)service/|^/debug/pprof/`)

// TestRoutesMatchTheContract compares the routes with docs/openapi.yaml, but for those that others describe.
func TestRoutesMatchTheContract(t *testing.T) {
	t.Parallel()
	doc, err := contract()
	require.NoError(t, err)
	var documented, registered []string
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			documented = append(documented, method+" "+path)
		}
	}
	parameter := regexp.MustCompile(`:(\w+)`)
	for _, route := range server.Routes(start(t, withQueues()).server) {
		if route.Method != http.MethodHead && !foreign.MatchString(route.Path) {
			registered = append(registered, route.Method+" "+parameter.ReplaceAllString(route.Path, "{$1}"))
		}
	}
	require.ElementsMatch(t, documented, registered)
}

// TestSlugsMatchTheContract compares the slugs of package fault, of the problem's schema and of x-problems.
func TestSlugsMatchTheContract(t *testing.T) {
	t.Parallel()
	doc, err := contract()
	require.NoError(t, err)
	var enumerated []fault.Slug
	for _, value := range doc.Components.Schemas["Problem"].Value.Properties["type"].Value.Enum {
		enumerated = append(enumerated, fault.Slug(strings.TrimPrefix(fmt.Sprint(value), wire.TypePrefix)))
	}
	kinds := make(map[fault.Slug][]fault.Kind)
	for _, e := range fault.List() {
		kinds[e.Slug] = e.Kinds
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(kinds)), enumerated)

	used := []fault.Slug{ // on every path
		fault.SlugNoPath, fault.SlugMethod, fault.SlugCrossOrigin, fault.SlugUnknownHost, fault.SlugInvalidRequest,
		fault.SlugKeysUnavailable,
	}
	// No path of the document answers with these: calls of Go do.
	used = append(used, fault.SlugManySubscribers, fault.SlugBacklogFull)
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			if slices.Contains(op.Tags, "predecessor") {
				continue
			}
			for status := range op.Responses.Map() {
				code, err := strconv.Atoi(status)
				require.NoError(t, err)
				slugs := slugsOf(t, op, code)
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
