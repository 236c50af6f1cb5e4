package servertest

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

// root returns the root of the repository, above the directory of this file.
func root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..")
}

// Contract is docs/openapi.yaml.
var Contract = sync.OnceValues(func() (*openapi3.T, error) {
	loader := openapi3.NewLoader()
	openapi3filter.RegisterBodyDecoder("text/html", openapi3filter.PlainBodyDecoder)
	doc, err := loader.LoadFromFile(filepath.Join(root(), "docs", "openapi.yaml"))
	if err != nil {
		return nil, err
	}
	if err := doc.Validate(loader.Context, openapi3.EnableExamplesValidation()); err != nil {
		return nil, err
	}
	doc.Components.Schemas["Content"].Value.Nullable = true // any value, in OpenAPI; the library excludes null
	return doc, nil
})

// CheckContract checks that docs/openapi.yaml allows an answer.
func CheckContract(t testing.TB, method, path string, a Answer) {
	t.Helper()
	doc, err := Contract()
	require.NoError(t, err)
	if method == http.MethodOptions || Foreign.MatchString(path) {
		return
	}
	op := operation(doc, method, path)
	if general := generalAnswer(doc, method, path, a); general != nil {
		op = general
	}
	request := &http.Request{Method: method, URL: &url.URL{Path: path}}
	err = openapi3filter.ValidateResponse(t.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{
			Request: request, Route: &routers.Route{Spec: doc, Path: path, Method: method, Operation: op},
		},
		Status: a.Status, Header: a.Header, Body: io.NopCloser(bytes.NewReader(a.Body)),
		Options: &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true},
	})
	require.NoError(t, err, "%s %s: %d %s", method, path, a.Status, a.Body)
	if a.Status == http.StatusNoContent || method == http.MethodHead {
		require.Empty(t, a.Body)
	}
	if a.Header.Get("Content-Type") == wire.MediaProblem && method != http.MethodHead {
		p := Decode[client.Problem](a)
		require.Contains(t, SlugsOf(t, op, a.Status), p.Slug(), "x-problems of %s %s %d", method, path, a.Status)
	}
}

// generalAnswer returns an operation with one of the answers that any request can get, or nil if a isn't one of them.
func generalAnswer(doc *openapi3.T, method, path string, a Answer) *openapi3.Operation {
	var name string
	var slug fault.Slug
	switch {
	case a.Status == http.StatusForbidden && bytes.Contains(a.Body, []byte(fault.SlugCrossOrigin)):
		name, slug = "CrossOrigin", fault.SlugCrossOrigin
	case a.Status == http.StatusNotFound && bytes.Contains(a.Body, []byte(fault.SlugNoPath)):
		name, slug = "NotFound", fault.SlugNoPath
	case a.Status == http.StatusMethodNotAllowed:
		name, slug = "MethodNotAllowed", fault.SlugMethod
	case a.Status == http.StatusTooManyRequests && operation(doc, method, path).OperationID == "":
		name, slug = "Limited", fault.SlugRateLimited
	case a.Status == http.StatusMisdirectedRequest:
		name, slug = "UnknownHost", fault.SlugUnknownHost
	case a.Status == http.StatusServiceUnavailable && bytes.Contains(a.Body, []byte(fault.SlugOverloaded)):
		name, slug = "Unavailable", fault.SlugOverloaded
	case a.Status == http.StatusServiceUnavailable && bytes.Contains(a.Body, []byte(fault.SlugKeysUnavailable)):
		name, slug = "Unavailable", fault.SlugKeysUnavailable
	default:
		return nil
	}
	return oneAnswer(doc, path, a.Status, name, slug)
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
		rest := segments
		if want[len(want)-1] == "{path}" && len(rest) > len(want) { // it stands for all segments that follow
			rest = rest[:len(want)]
		}
		if slices.EqualFunc(want, rest, func(w, s string) bool { return w == s || strings.HasPrefix(w, "{") }) &&
			(rest[len(rest)-1] != "" || path == template) {
			return doc.Paths.Find(template)
		}
	}
	return nil
}

// SlugsOf returns the slugs of the problems with which an operation may be answered, by a status.
func SlugsOf(t testing.TB, op *openapi3.Operation, status int) []fault.Slug {
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

// Foreign are the routes that Open Match's .proto files describe, gRPC's own, those for go tool pprof, and the console.
var Foreign = regexp.MustCompile(`^/(openmatch|grpc)\.|^/v1/(frontend|backend|query)service/|^/debug/pprof/|^/console(/|$)`)
