package redis_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/storage/redis/pubsub"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

// hearing is a Listen that a test follows.
type hearing struct {
	confirmed chan struct{}
	messages  chan string
	stop      func()
}

// hear listens to a topic, and returns when Redis has confirmed the subscription. It ends with stop or the test.
func hear(t *testing.T, c *redis.Conn, topic string) *hearing {
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
func (h *hearing) requireHears(t *testing.T, c *redis.Conn, topic, text string) {
	t.Helper()
	require.NoError(t, c.Retry(t.Context(), "publish", func(ctx context.Context) error {
		return c.Client().Do(ctx, c.Client().B().Spublish().Channel(topic).Message(text).Build()).Error()
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
			c := storetest.Connect(t, redis.Options{URL: n.URL()})
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
			for _, h := range all {
				h.stop()
				require.Empty(t, h.messages)
			}
		})
	}
}

// A connection that hangs is noticed although no command is sent.
func TestListenOnSilence(t *testing.T) {
	t.Parallel()
	n := redistest.Start(t, redistest.Options{})
	registry := prometheus.NewRegistry()
	c := storetest.Connect(t, redis.Options{URL: n.URL(), Timeout: 400 * time.Millisecond, Metrics: registry})
	h := hear(t, c, "{x}")
	n.Pause(t)
	storetest.WaitFor(t, "the interruption",
		func() bool { return storetest.Counted(t, registry, "tidemark_redis_listen_interruptions_total") > 0 })
	n.Resume(t)
	<-h.confirmed
	h.requireHears(t, c, "{x}", "m1")
}

// Listeners are called about each interruption by a move of the slot, and get all messages from then on, also if they
// start while the slot is half moved.
func TestListenAcrossSlotMoves(t *testing.T) {
	t.Parallel()
	nodes := storetest.StartTwoNodes(t)
	c := nodes.Connect(t, redis.Options{})
	all := []*hearing{hear(t, c, "{x}")}
	for i := range 6 {
		m := nodes.OpenMove(t, "x")
		all = append(all, hear(t, nodes.Connect(t, redis.Options{}), "{x}"))
		m.CloseSlot(t)
		for _, h := range all {
			<-h.confirmed
		}
		all[0].requireHears(t, c, "{x}", strconv.Itoa(i))
		for _, h := range all[1:] {
			require.Equal(t, strconv.Itoa(i), <-h.messages)
		}
	}
}
