package web_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/test/load"
	"github.com/tidemark-dev/tidemark/test/servertest"
)

// TestUnreadStreams: a client that doesn't read large answers is refused them before they are read from Redis. Others
// are served, and so are its requests with small answers.
func TestUnreadStreams(t *testing.T) {
	t.Parallel()
	const (
		messages, size = 20, 900
		answer         = messages * size
		path           = "/v1/channels/open.c/subscribers/s/messages"
	)
	var p servertest.People
	h := servertest.Start(t, servertest.Closed(t, &p, access.ChannelRule{Pattern: `open[.].*`, QueryToken: true}),
		func(s *servertest.Setup) { s.Limits.AnswerMemory = 4 * 8 * answer })
	p.Add(t, "unread", servertest.Everything)
	p.Add(t, "other", servertest.Everything)
	p.Add(t, "admin", `[{"actions":["admin"]}]`)
	h.As("other")
	h.Subscribe("open.c", "s")
	for i := range messages {
		h.Publish("open.c", fmt.Sprint("m", i), `"`+strings.Repeat("x", size-2)+`"`)
	}
	c, err := load.DialFlood(t.Context(), h.Addr, true)
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.CloseWindow())
	require.NoError(t, c.Gets(path+"?access_token=unread", 100))
	fetch := func(as string) servertest.Answer { return h.Do("GET", path, "", servertest.Bearer(as)) }
	var refused servertest.Answer
	require.Eventually(t, func() bool {
		refused = fetch("unread")
		return refused.Status != http.StatusOK
	}, servertest.Patience, servertest.Step)
	refused.Problem(http.StatusTooManyRequests, fault.SlugRateLimited)
	require.Equal(t, "1", refused.Header.Get("Retry-After"))
	require.Greater(t, h.AnswerBytes(), int64(3*answer))
	require.LessOrEqual(t, h.AnswerBytes(), int64(8*answer))
	h.Store.Intercept(func(context.Context, string) error {
		t.Error("a request that is refused is read from Redis")
		return nil
	})
	require.Equal(t, http.StatusTooManyRequests, fetch("unread").Status)
	h.Store.Fail(nil)
	require.Equal(t, 201, h.Do("PUT", "/v1/channels/d/messages/a", "1", servertest.Bearer("unread")).Status)
	got := fetch("other")
	require.Equal(t, http.StatusOK, got.Status)
	require.Greater(t, len(got.Body), answer)
	require.Regexp(t, `tidemark_unread_answers_total\{outcome="refused"\} [1-9]`,
		string(h.OnAdmin().Do("GET", "/metrics", "", servertest.Bearer("admin")).Body))

	c.Close()
	require.Eventually(t, func() bool { return h.AnswerBytes() == 0 }, servertest.Patience, servertest.Step)
	require.Equal(t, http.StatusOK, fetch("unread").Status)
}
