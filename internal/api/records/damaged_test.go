package records_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	clientrecords "github.com/tidemark-dev/tidemark/client/records"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/wire"
	"github.com/tidemark-dev/tidemark/test/servertest"
)

// TestDamagedValuesOfTheCache: they count as missing.
func TestDamagedValuesOfTheCache(t *testing.T) {
	t.Parallel()
	for _, broken := range []string{"[\"a\x01b\"]", "[\"a\xffb\"]", `["a]`} {
		h := servertest.Start(t)
		const path = "/v1/cache/author-followers/"
		h.Do("PUT", path+"1", `["abc"]`).Expect(204, "")
		for key := range h.Keys() {
			h.Redis.Do(t, "SET", key, broken, "KEEPTTL")
		}
		h.Do("PUT", path+"2", `["abc"]`).Expect(204, "")
		h.Do("GET", path+"1", "").Problem(http.StatusNotFound, fault.SlugNotCached)
		h.Do("POST", "/v1/cache/author-followers/get", `{"ids":["1","2"]}`).Expect(200,
			`{"values":[{"id":"2","value":["abc"]}],"missing":["1"],"left":[]}`)
	}
}

// TestDamagedSessions: they count as ended, and lists have the others.
func TestDamagedSessions(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	tokens := []string{}
	for range 5 {
		tokens = append(tokens, newSession(h, "ann"))
	}
	broken := [][]string{{"device_info", "{\"a\":\"\x01\"}"}, {"device_info", "{\"a\":\"\xff\"}"}, {"created_at", "nan"},
		{"created_at", "253402300800"}}
	for key := range h.Keys() {
		if strings.Contains(key, "session:{") && len(broken) > 0 {
			h.Redis.Do(t, append([]string{"HSET", key}, broken[0]...)...)
			broken = broken[1:]
		}
	}
	require.Empty(t, broken)
	alive := 0
	for _, token := range tokens {
		if got := checkSession(h, token); got.Status == http.StatusOK {
			alive++
		} else {
			got.Problem(http.StatusNotFound, fault.SlugNoSession)
		}
	}
	require.Equal(t, 1, alive)
	list := h.Do("GET", "/v1/users/ann/sessions", "").With(http.StatusOK)
	require.Len(t, servertest.Decode[wire.Sessions](list).Sessions, 1)
}

// TestDamagedTexts: an answer is UTF-8, whatever is in the storage.
func TestDamagedTexts(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	h.Do("PATCH", "/v1/states/p/i", `{"fields":{"a":"b"}}`).With(200)
	for key := range h.Keys() {
		h.Redis.Do(t, "HSET", key, "a", "b\xff")
	}
	state := servertest.Decode[clientrecords.State](h.Do("GET", "/v1/states/p/i", "").With(http.StatusOK))
	require.Equal(t, map[string]string{"a": "b\ufffd"}, state.Fields)
}

// TestDamagedViews: a counter that is no number is reported at once, and isn't tried again.
func TestDamagedViews(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	h.Do("POST", "/v1/views/q", "").With(http.StatusAccepted)
	require.Eventually(t, func() bool {
		return strings.Contains(string(h.Do("GET", "/v1/views/q", "").Body), `"counted":1`)
	}, servertest.Patience, servertest.Step)
	for key := range h.Keys() {
		if strings.Contains(key, "viewed:") {
			h.Redis.Do(t, "SET", key, "1.5")
		}
	}
	h.Do("GET", "/v1/views?id=q", "").Problem(http.StatusInternalServerError, fault.SlugInternal)
}
