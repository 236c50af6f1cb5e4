package assigner

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/callout/jsonhttp"
)

func webhookAt(url string) matchmaking.AssignBy {
	return matchmaking.AssignBy{Kind: matchmaking.AssignWebhook, URL: url, Secret: "secret", Timeout: generous}
}

var ok = reply{status: 200, body: `{"connection":"203.0.113.7:7777","extensions":{"map":"dust"},"token":"server-9"}`}

func TestWebhookTriesAgainWhatMayPass(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]reply{
		"408":             {status: http.StatusRequestTimeout},
		"425":             {status: http.StatusTooEarly},
		"429":             {status: http.StatusTooManyRequests, retryAfter: "0"},
		"500":             {status: http.StatusInternalServerError, body: "oh"},
		"503":             {status: http.StatusServiceUnavailable},
		"connection lost": {broken: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, first, first, ok)
			given, err := build(t, webhookAt(s.URL)).Allocate(t.Context(), proposal())
			require.NoError(t, err)
			require.Equal(t, "server-9", given.Token)
			calls := s.calls()
			require.Len(t, calls, 3)
			for _, c := range calls {
				require.Equal(t, "match-1", c.header.Get(HeaderIdempotencyKey))
				require.Equal(t, calls[0].body, c.body)
				require.NoError(t, Verifier{Secrets: []string{"secret"}}.Verify(c.header, c.body))
			}
		})
	}
}

func TestWebhookEndsOnWhatWillNotPass(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer reply
		want   string
	}{
		"400":               {reply{status: 400, body: "no such map"}, `status 400 Bad Request: "no such map"`},
		"404":               {reply{status: 404}, "status 404 Not Found"},
		"409":               {reply{status: 409}, "status 409 Conflict"},
		"redirect":          {reply{status: 307}, "status 307 Temporary Redirect, redirects are not followed"},
		"no JSON":           {reply{status: 200, body: "203.0.113.7"}, "read the response: "},
		"empty":             {reply{status: 204}, "read the response: "},
		"an array":          {reply{status: 200, body: "[]"}, "read the response: "},
		"no connection":     {reply{status: 200, body: `{"address":"203.0.113.7"}`}, "the response has no connection"},
		"connection's type": {reply{status: 200, body: `{"connection":7777}`}, "read the response: "},
		"two values":        {reply{status: 200, body: ok.body + ok.body}, "read the response: "},
		"too large": {reply{status: 200, body: strings.Repeat(" ", responseBytes+1)},
			"the response is too large"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, c.answer)
			_, err := build(t, webhookAt(s.URL)).Allocate(t.Context(), proposal())
			require.ErrorContains(t, err, "allocate match match-1 by webhook: "+c.want)
			require.Len(t, s.calls(), 1)
		})
	}
}

func TestWebhookWaitsAsLongAsItIsTold(t *testing.T) {
	t.Parallel()
	s := serve(t, reply{status: 503, retryAfter: "3600"}, ok)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := build(t, webhookAt(s.URL)).Allocate(ctx, proposal())
	require.ErrorContains(t, err, "no time left to try again: status 503")
	require.Len(t, s.calls(), 1)
}

func TestWebhookTriesUntilTheDeadlineIsNear(t *testing.T) {
	t.Parallel()
	s := serve(t, reply{status: 503})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := build(t, webhookAt(s.URL)).Allocate(ctx, proposal())
	require.ErrorContains(t, err, "503")
	require.NotEmpty(t, s.calls())
}

func TestWebhookEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s := serve(t, reply{status: 503, retryAfter: "30"})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := build(t, webhookAt(s.URL)).Allocate(ctx, proposal())
		done <- err
	}()
	require.Eventually(t, func() bool { return len(s.calls()) == 1 }, time.Minute, time.Millisecond)
	cancel()
	err := <-done
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, s.calls(), 1)
}

func TestWebhookWithoutASecretIsNotSigned(t *testing.T) {
	t.Parallel()
	s := serve(t, ok)
	_, err := build(t, matchmaking.AssignBy{Kind: matchmaking.AssignWebhook, URL: s.URL}).Allocate(t.Context(),
		proposal())
	require.NoError(t, err)
	require.NotContains(t, s.calls()[0].header, HeaderSignature)
	require.NotContains(t, s.calls()[0].header, HeaderTimestamp)
}

func TestWebhookReleases(t *testing.T) {
	t.Parallel()
	given := matchmaking.Allocation{
		Connection: "203.0.113.7:7777", Token: "server-9",
		Extensions: map[string]json.RawMessage{"map": json.RawMessage(`"dust"`)},
	}
	s := serve(t, reply{status: 503}, reply{status: 204})
	require.NoError(t, build(t, webhookAt(s.URL)).Release(t.Context(), "match-1", given))
	calls := s.calls()
	require.Len(t, calls, 2)
	for _, c := range calls {
		require.Equal(t, "release-match-1", c.header.Get(HeaderIdempotencyKey))
		require.NoError(t, Verifier{Secrets: []string{"secret"}}.Verify(c.header, c.body))
		require.Equal(t, `{"action":"release","matchId":"match-1","queue":"duel","connection":"203.0.113.7:7777",`+
			`"token":"server-9","extensions":{"map":"dust"}}`, string(c.body))
	}
}

func TestWebhookReleaseOfWhatIsGone(t *testing.T) {
	t.Parallel()
	for status, fine := range map[int]bool{404: true, 410: true, 400: false, 403: false} {
		s := serve(t, reply{status: status})
		err := build(t, webhookAt(s.URL)).Release(t.Context(), "match-1", matchmaking.Allocation{})
		require.Equal(t, fine, err == nil, "%d: %v", status, err)
		if !fine {
			var refused *jsonhttp.StatusError
			require.ErrorAs(t, err, &refused)
			require.ErrorContains(t, err, "release match match-1 by webhook: ")
		}
		require.Len(t, s.calls(), 1)
	}
}
