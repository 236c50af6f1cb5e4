package redis

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/redistest"
	"github.com/tidemark-dev/tidemark/storage/redis/pubsub"
)

// connect connects to a Redis until the test ends.
func connect(t testing.TB, o Options) *Conn {
	t.Helper()
	return openAt(t, o).Conn
}

// hearing is a Listen that a test follows.
type hearing struct {
	confirmed chan struct{}
	messages  chan string
	stop      func()
}

// hear listens to a topic, and returns when Redis has confirmed that. It ends with stop or the test.
func hear(t *testing.T, c *Conn, topic string) *hearing {
	t.Helper()
	h := &hearing{confirmed: make(chan struct{}, 100), messages: make(chan string, 10000)}
	h.stop = c.Listen(topic, pubsub.Listener{
		Confirmed: func() { h.confirmed <- struct{}{} }, Message: func(text string) { h.messages <- text },
	})
	t.Cleanup(h.stop)
	<-h.confirmed
	return h
}

// requireHears publishes a text, which must be the next message.
func (h *hearing) requireHears(t *testing.T, c *Conn, topic, text string) {
	t.Helper()
	require.NoError(t, c.Retry(t.Context(), "publish", func(ctx context.Context) error {
		return c.client.Do(ctx, c.client.B().Spublish().Channel(topic).Message(text).Build()).Error()
	}))
	require.Equal(t, text, <-h.messages)
}

// A listener learns of every interruption, and gets all messages from then on.
func TestListenInterrupted(t *testing.T) {
	t.Parallel()
	for name, interrupt := range map[string]func(*testing.T, *redistest.Node){
		"killed connections": func(t *testing.T, n *redistest.Node) {
			t.Helper()
			require.NoError(t, n.Do(t, "CLIENT", "KILL", "TYPE", "pubsub").Error())
		},
		"a restart": func(t *testing.T, n *redistest.Node) {
			t.Helper()
			n.Kill(t)
			n.Restart(t)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := redistest.Start(t, redistest.Options{})
			c := connect(t, Options{URL: n.URL()})
			var all []*hearing // on one connection
			for i := range 8 {
				all = append(all, hear(t, c, "{x}"+strconv.Itoa(i)))
			}
			for range 4 {
				interrupt(t, n)
				for i, h := range all {
					<-h.confirmed
					h.requireHears(t, c, "{x}"+strconv.Itoa(i), "only of "+strconv.Itoa(i))
				}
			}
			for i, h := range all {
				h.stop()
				require.Zero(t, c.subscriptions.Listeners("{x}"+strconv.Itoa(i)))
				require.Empty(t, h.messages)
			}
		})
	}
}

// A connection that has gone silent is noticed although no command is sent.
func TestListenOnSilence(t *testing.T) {
	t.Parallel()
	n := redistest.Start(t, redistest.Options{})
	registry := prometheus.NewRegistry()
	c := connect(t, Options{URL: n.URL(), Timeout: 400 * time.Millisecond, Metrics: registry})
	h := hear(t, c, "{x}")
	n.Pause(t)
	waitFor(t, "the interruption", func() bool { return counted(t, registry, "tidemark_redis_listen_interruptions_total") > 0 })
	n.Resume(t)
	<-h.confirmed
	h.requireHears(t, c, "{x}", "m1")
}

// A listener can be stopped at any moment, and nothing is left of it.
func TestListenStops(t *testing.T) {
	t.Parallel()
	n := redistest.Start(t, redistest.Options{})
	c := connect(t, Options{URL: n.URL()})
	for i := range 300 { // before, while and after it is confirmed
		confirmed := make(chan struct{}, 1)
		stop := c.Listen("{x}", pubsub.Listener{Confirmed: func() { confirmed <- struct{}{} }, Message: func(string) {}})
		if i%3 == 0 {
			<-confirmed
		}
		for range i % 3 { // takes about as long as Listen takes to subscribe
			require.NoError(t, c.client.Do(t.Context(), c.client.B().Exists().Key("x").Build()).Error())
		}
		stop()
		require.Zero(t, c.subscriptions.Listeners("{x}"))
	}

	paused := hear(t, c, "{paused}")
	n.Pause(t)
	paused.stop()
	n.Resume(t)
	waitFor(t, "Redis to read what was sent", func() bool { return c.Ready(t.Context()) == nil })
	require.Zero(t, c.subscriptions.Listeners("{paused}"))
}
