package callout

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

func httpEvaluatorAt(t *testing.T, url string) matchmaking.Evaluator {
	t.Helper()
	return evaluatorOf(t, matchmaking.Caller{Kind: EvaluatorHTTP, URL: url})
}

func TestHTTPEvaluatorChooses(t *testing.T) {
	t.Parallel()
	proposals := proposed3()
	accepted, err := httpEvaluatorAt(t, serve(t, answer(200, "", `{"accepted":["m3","m1"]}`))).Evaluate(t.Context(),
		proposals)
	require.NoError(t, err)
	require.Equal(t, []matchmaking.Proposal{proposals[2], proposals[0]}, accepted)
}

func TestEvaluatorIsNotCalledWithoutProposals(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{EvaluatorHTTP, EvaluatorGRPC} {
		accepted, err := evaluatorOf(t, matchmaking.Caller{Kind: kind, URL: "http://127.0.0.1:1"}).Evaluate(t.Context(),
			nil)
		require.NoError(t, err)
		require.Empty(t, accepted)
	}
}

func TestHTTPEvaluatorInvalidResponse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status     int
		body, want string
	}{
		"invalid": {200, `{"accepted":["m9"]}`, `response of the evaluator of queue duel: match "m9" was not proposed`},
		"nothing": {200, `{}`, `call the evaluator of queue duel: the response has no "accepted"`},
		"no JSON": {200, `hello`, "call the evaluator of queue duel: read the response: "},
		"500":     {500, `oh`, `call the evaluator of queue duel: status 500 Internal Server Error: "oh"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			accepted, err := httpEvaluatorAt(t, serve(t, answer(c.status, "application/json", c.body))).Evaluate(
				t.Context(), proposed3())
			require.ErrorContains(t, err, c.want)
			require.Empty(t, accepted)
		})
	}
}

func TestHTTPEvaluatorMayAcceptNone(t *testing.T) {
	t.Parallel()
	accepted, err := httpEvaluatorAt(t, serve(t, answer(200, "", `{"accepted":[]}`))).Evaluate(t.Context(), proposed3())
	require.NoError(t, err)
	require.Empty(t, accepted)
}
