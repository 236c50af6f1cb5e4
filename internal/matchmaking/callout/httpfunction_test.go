package callout

import (
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/callout/jsonhttp"
)

func httpFunctionAt(t *testing.T, url string) matchmaking.MatchFunction {
	t.Helper()
	return function(t, matchmaking.Match{Function: matchmaking.MatchHTTP, URL: url})
}

func TestHTTPFunctionAnswersInOnePiece(t *testing.T) {
	t.Parallel()
	url := serve(t, answer(http.StatusOK, "application/json", `{"matches":[
		{"id":"m1","teams":[["a","d"],["c"]],"score":1.5,"extensions":{"map":"dust"},"comment":"not read"},
		{"teams":[["b"],["a"]]}]}`))
	waiting := pools()
	proposals, err := httpFunctionAt(t, url).Match(t.Context(), matchmaking.Profile{}, waiting)
	require.NoError(t, err)
	require.Len(t, proposals, 2)
	require.Equal(t, "m1", proposals[0].ID)
	require.Equal(t, [][]string{{"a", "d"}, {"c"}}, teamsOf(proposals[0]))
	require.Same(t, waiting["second"][1], proposals[0].Teams[0][1])
	require.InDelta(t, 1.5, proposals[0].Score, 0)
	require.JSONEq(t, `"dust"`, string(proposals[0].Extensions["map"]))
	require.Empty(t, proposals[1].ID, "the director makes one")
	require.Equal(t, [][]string{{"b"}, {"a"}}, teamsOf(proposals[1]))
}

func TestHTTPFunctionFindsNothing(t *testing.T) {
	t.Parallel()
	for _, handle := range []http.HandlerFunc{
		answer(http.StatusNoContent, "", ""), answer(http.StatusOK, linesType, ""),
		answer(http.StatusOK, "", `{"matches":[]}`),
	} {
		proposals, err := httpFunctionAt(t, serve(t, handle)).Match(t.Context(), matchmaking.Profile{}, pools())
		require.NoError(t, err)
		require.Empty(t, proposals)
	}
}

func TestHTTPFunctionInvalidResponse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body, kind, want string
		status           int
	}{
		"invalid match": {body: `{"matches":[{"id":"m1"}]}`, want: `match "m1" has no teams`},
		"no matches":    {body: `{"proposals":[]}`, want: `"matches" is missing`},
		"null":          {body: `null`, want: `"matches" is missing`},
		"an array":      {body: `[]`, want: `json: cannot unmarshal array`},
		"no JSON":       {body: `hello`, want: `invalid character 'h'`},
		"nothing":       {body: ``, want: `unexpected end of JSON input`},
		"more after it": {body: `{"matches":[]}{}`, want: `invalid character '{' after top-level value`},
		"bad line": {kind: linesType, body: `{"teams":[["a"]]}` + "\nhello\n",
			want: `match 2: invalid character 'h'`},
		"half a line": {kind: linesType, body: `{"teams":[["a"]`, want: `match 1: unexpected EOF`},
		"line without teams": {kind: linesType, body: `{"error":"out of memory"}`,
			want: `match 1: match "" has no teams`},
		"500": {status: 500, body: "out of memory",
			want: `status 500 Internal Server Error: "out of memory"`},
		"404": {status: 404, want: `status 404 Not Found`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.status == 0 {
				c.status = http.StatusOK
			}
			proposals, err := httpFunctionAt(t, serve(t, answer(c.status, c.kind, c.body))).Match(t.Context(),
				matchmaking.Profile{}, pools())
			require.ErrorContains(t, err, "match function of queue duel")
			require.ErrorContains(t, err, c.want)
			require.Empty(t, proposals)
		})
	}
}

func TestHTTPFunctionIncompleteResponse(t *testing.T) {
	t.Parallel()
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", linesType)
		_, _ = io.WriteString(w, `{"teams":[["a"]]}`+"\n")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	proposals, err := httpFunctionAt(t, url).Match(t.Context(), matchmaking.Profile{}, pools())
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Empty(t, proposals)
}

func TestHTTPFunctionTimeout(t *testing.T) {
	t.Parallel()
	hang := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	f := function(t, matchmaking.Match{Function: matchmaking.MatchHTTP, URL: hang,
		Timeout: matchmaking.Duration(50 * time.Millisecond)})
	_, err := f.Match(t.Context(), matchmaking.Profile{}, pools())
	require.ErrorIs(t, err, jsonhttp.ErrTimeout)

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = httpFunctionAt(t, hang).Match(ctx, matchmaking.Profile{}, pools())
	require.ErrorIs(t, err, context.DeadlineExceeded)
}
