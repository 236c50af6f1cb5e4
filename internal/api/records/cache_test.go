package records_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/internal/records/site"
	"github.com/tidemark-dev/tidemark/test/servertest"
)

// TestOddIDsInTheCache stores values under IDs that resemble other keys, paths and patterns: each has a separate value,
// in one key below the prefix.
func TestOddIDsInTheCache(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	ids := []string{
		"1", "01", "1}", "{1}", "1}:x{2", "%31", "*", "?", "1/2", "..", "1:2", "a b", "a+b", "a%20b", "жук", "<script>",
		"\u00e9", "e\u0301",
	}
	for i, id := range ids {
		value := fmt.Sprintf(`[%d]`, i)
		h.Do("PUT", "/v1/cache/author-followers/"+url.PathEscape(id), value).Expect(204, "")
		h.Do("PUT", "/v1/cache/shouts/q="+url.PathEscape(strings.ReplaceAll(id, ":", "::")), `[{"n":`+value+`}]`).Expect(
			204, "")
	}
	for i, id := range ids {
		got := h.Do("GET", "/v1/cache/author-followers/"+url.PathEscape(id), "")
		got.Expect(200, fmt.Sprintf(`[%d]`, i))
		require.Equal(t, "application/json", got.Header.Get("Content-Type"))
		h.Do("GET", "/v1/cache/shouts/q="+url.PathEscape(strings.ReplaceAll(id, ":", "::")), "").Expect(200,
			fmt.Sprintf(`[{"n":[%d]}]`, i))
		h.Do("HEAD", "/v1/cache/author-followers/"+url.PathEscape(id), "").Expect(200, "")
	}
	kept := 0
	for key := range h.Keys() {
		kind := site.Community().Table.Of(strings.TrimPrefix(key, h.Prefix))
		require.NotNil(t, kind, key)
		if kind == site.Kind("author-followers") || kind == site.Kind("shouts") {
			kept++
		}
	}
	require.Equal(t, 2*len(ids), kept)
}

// TestPoisonOfTheCache checks that values that would break readers are rejected, and nothing is written.
func TestPoisonOfTheCache(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	before := h.Keys()
	long := strings.Repeat("x", 129)
	for call, want := range map[string]fault.Slug{
		"PUT /v1/cache/author/1 [1]":                                        fault.SlugInvalidValue,
		"PUT /v1/cache/author/1":                                            fault.SlugInvalidValue,
		"PUT /v1/cache/author-slug/ann \x00":                                fault.SlugInvalidValue,
		"PUT /v1/cache/topic/1 {\"title\":\"\xff\"}":                        fault.SlugInvalidValue,
		"PUT /v1/cache/topic-followers/1 [1,{}]":                            fault.SlugInvalidValue,
		"PUT /v1/cache/topic/1 " + strings.Repeat("[", 1<<16):               fault.SlugInvalidValue,
		"PUT /v1/cache/author-slug/ann " + long:                             fault.SlugInvalidValue,
		"PUT /v1/cache/author/" + long + " {}":                              fault.SlugInvalidID,
		"PUT /v1/cache/author/%00 {}":                                       fault.SlugInvalidID,
		"PUT /v1/cache/author/%FF {}":                                       fault.SlugInvalidID,
		"PUT /v1/cache/shouts/all []":                                       fault.SlugInvalidID,
		"PUT /v1/cache/search/%20 {}":                                       fault.SlugInvalidID,
		"PUT /v1/cache/session/1 {}":                                        fault.SlugNoKind,
		"PUT /v1/cache/cache-tag/1 {}":                                      fault.SlugNoKind,
		"PUT /v1/cache/..%2Fauthor/1 {}":                                    fault.SlugNoKind,
		"GET /v1/cache/AUTHOR/1":                                            fault.SlugNoKind,
		"DELETE /v1/cache/setting/JWT_SECRET":                               fault.SlugNoKind,
		"PUT /v1/cache/author/1?ttl=0s {}":                                  fault.SlugInvalidQuery,
		"PUT /v1/cache/author/1?ttl=1ms {}":                                 fault.SlugInvalidQuery,
		"PUT /v1/cache/author/1?ttl=800h&tags=a {}":                         fault.SlugInvalidQuery,
		"PUT /v1/cache/shouts/a=1?ttl=301s []":                              fault.SlugInvalidQuery,
		"PUT /v1/cache/author/1?expires=1s {}":                              fault.SlugInvalidQuery,
		"PUT /v1/cache/author/1?tags=a,,b {}":                               fault.SlugInvalidID,
		"PUT /v1/cache/author/1?tags=" + strings.Repeat("a,", 8) + "a {}":   fault.SlugInvalidID,
		"POST /v1/cache/author/get {\"ids\":[]}":                            fault.SlugInvalidID,
		"POST /v1/cache/author/get {\"ids\":[\"\"]}":                        fault.SlugInvalidID,
		"POST /v1/cache/author/get " + manyIDs(records.MaxMany+1):           fault.SlugInvalidID,
		"POST /v1/cache/settings/get {\"ids\":[\"1\"]}":                     fault.SlugNoKind,
		"POST /v1/cache/invalidate {}":                                      fault.SlugInvalidBody,
		"POST /v1/cache/invalidate {\"prefix\":\"a\"}":                      fault.SlugInvalidBody,
		"POST /v1/cache/invalidate {\"kind\":\"search\",\"tags\":[\"a\"]}":  fault.SlugInvalidBody,
		"POST /v1/cache/invalidate {\"kind\":\"author\",\"prefix\":\"1\"}":  fault.SlugInvalidID,
		"POST /v1/cache/invalidate {\"tags\":[\"\\u0000\"]}":                fault.SlugInvalidID,
		"POST /v1/cache/invalidate {\"kind\":\"session\",\"prefix\":\"\"}":  fault.SlugNoKind,
		"POST /v1/cache/invalidate {\"kind\":\"search\",\"pattern\":\"*\"}": fault.SlugInvalidBody,
	} {
		method, path, body := servertest.Cut(call)
		got := h.Do(method, path, body)
		require.Less(t, got.Status, 500, "%s: %s", call, got.Body)
		p := servertest.Decode[client.Problem](got)
		require.Equal(t, want, p.Slug(), "%s: %s", call, got.Body)
	}
	for size, want := range map[int]int{site.Kind("author").MaxBytes: 204, site.Kind("author").MaxBytes + 1: 413} {
		value := `{"bio":"` + strings.Repeat("x", size-len(`{"bio":""}`)) + `"}`
		require.Equal(t, want, h.Do("PUT", "/v1/cache/author/large", value).Status)
	}
	h.Do("DELETE", "/v1/cache/author/large", "").Expect(204, "")
	require.Equal(t, before, h.Keys())
}

func manyIDs(n int) string { return `{"ids":["1"` + strings.Repeat(`,"1"`, n-1) + `]}` }

// TestManyLargeValues requests more than an answer may contain: the rest is left out, and nothing is lost.
func TestManyLargeValues(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	value := `{"bio":"` + strings.Repeat("x", 900<<10) + `"}`
	missing := []string{}
	for i := range 6 {
		missing = append(missing, fmt.Sprint(i))
		h.Do("PUT", "/v1/cache/author/"+missing[i], value).Expect(204, "")
	}
	type many struct {
		Values []struct{ ID string }
		Left   []string
	}
	got := 0
	for _, want := range []int{4, 2} {
		answer := servertest.Decode[many](h.Do("POST", "/v1/cache/author/get", `{"ids":["`+strings.Join(missing, `","`)+
			`"]}`))
		require.Len(t, answer.Values, want)
		got += len(answer.Values)
		missing = answer.Left
	}
	require.Equal(t, 6, got)
	require.Empty(t, missing)
}

// TestWhoMayUseTheCache checks grants against canonical IDs, also of IDs in bodies.
func TestWhoMayUseTheCache(t *testing.T) {
	t.Parallel()
	var p servertest.People
	h := servertest.Start(t, servertest.Closed(t, &p))
	p.Add(t, "all", `[{"actions":["read","write"]}]`)
	p.Add(t, "reader", `[{"actions":["read"],"records":["cache/author/1","cache/search/go redis*"]}]`)
	p.Add(t, "writer", `[{"actions":["write"],"records":["cache/search/*","cache/author/1","cache/shouts/a=*"]}]`)
	h.Serves("all",
		"PUT /v1/cache/author/1 {}", "PUT /v1/cache/author/2 {}", "PUT /v1/cache/search/go%20redis {}",
		`POST /v1/cache/invalidate {"tags":["a"]}`)
	h.Serves("reader",
		"GET /v1/cache/author/1", "GET /v1/cache/search/%20GO%20%20Redis", `POST /v1/cache/author/get {"ids":["1"]}`,
		`POST /v1/cache/search/get {"ids":["GO redis"]}`)
	h.Forbids("reader",
		"GET /v1/cache/author/2", "GET /v1/cache/author/1%2F", "GET /v1/cache/topic/1", "GET /v1/cache/search/go",
		"DELETE /v1/cache/author/1",
		`POST /v1/cache/author/get {"ids":["1","2"]}`, `POST /v1/cache/invalidate {"kind":"search"}`)
	got := h.Do("POST", "/v1/cache/author/get", strings.ReplaceAll(manyIDs(records.MaxMany+1), "1", "2"),
		servertest.Bearer("reader"))
	got.Problem(400, fault.SlugInvalidID) // before each ID is checked
	h.Serves("writer", "PUT /v1/cache/author/1 {}", "DELETE /v1/cache/search/Go", "PUT /v1/cache/shouts/b=1:a=1 []",
		`POST /v1/cache/invalidate {"kind":"search"}`)
	h.Forbids("writer",
		"PUT /v1/cache/author/2 {}", "GET /v1/cache/author/1", "PUT /v1/cache/shouts/b=1 []",
		`POST /v1/cache/invalidate {"kind":"shouts","prefix":"a="}`,
		`POST /v1/cache/invalidate {"tags":["a"]}`)
}
