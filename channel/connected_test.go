package channel

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// joinedStream returns the waiter of a stream.
func joinedStream(h *hub, targets []target, socket bool) *waiter {
	w := newWaiter(h, nil)
	h.joinStream(w, targets, socket)
	return w
}

// TestConnected lists those that wait on a channel: page by page, each subscriber once, until they leave.
func TestConnected(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, _ := runningHub(t, testLimits())
		s := &Service{hub: h}
		connected := func(after string, limit int) Connected {
			t.Helper()
			c, err := s.Connected("ch", after, limit)
			require.NoError(t, err)
			return c
		}
		require.Zero(t, connected("", 10))

		begin := time.Now()
		ch := func(subscriber string) []target { return []target{{channel: "ch", subscriber: subscriber}} }
		poll := h.join(append(ch("bob"), target{channel: "other", subscriber: "eve"}))
		pass(time.Second)
		socket, events := joinedStream(h, ch("bob"), true), joinedStream(h, ch("ann"), false)
		tail := joinedStream(h, ch(""), true)
		ann := ConnectedSubscriber{Name: "ann", Connections: Connections{Streams: 1}, Since: begin.Add(time.Second)}
		bob := ConnectedSubscriber{Name: "bob", Connections: Connections{Polls: 1, Sockets: 1}, Since: begin}
		all := Connected{Connections: Connections{Polls: 1, Streams: 1, Sockets: 2}, Tails: 1}
		all.Subscribers = []ConnectedSubscriber{ann, bob}
		require.Equal(t, all, connected("", 2))
		all.Subscribers, all.Next = []ConnectedSubscriber{ann}, "ann"
		require.Equal(t, all, connected("", 1))
		all.Subscribers, all.Next = []ConnectedSubscriber{bob}, ""
		require.Equal(t, all, connected("ann", 1))

		for _, w := range []*waiter{poll, socket, events, tail} {
			w.leave()
		}
		require.Zero(t, connected("", 10))
	})
}
