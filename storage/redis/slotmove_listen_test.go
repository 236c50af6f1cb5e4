package redis

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
)

// listener is a Listen that a test follows.
type listener struct {
	events chan channel.Event
	stop   func()
}

// listen begins to listen to a channel, and returns when that is confirmed. It ends with stop, or the test.
func listen(t *testing.T, s *Store, name string) *listener {
	t.Helper()
	l := &listener{events: make(chan channel.Event, 10000)}
	l.stop = sync.OnceFunc(s.Listen(name, func(e channel.Event) { l.events <- e }))
	t.Cleanup(l.stop)
	l.await(t, channel.EventConfirmed)
	return l
}

// await gives the next event of a kind, and passes over others.
func (l *listener) await(t *testing.T, kind channel.EventKind) channel.Event {
	t.Helper()
	for {
		select {
		case e := <-l.events:
			if e.Kind == kind {
				return e
			}
		case <-t.Context().Done():
			require.FailNow(t, "the test is over")
		}
	}
}

// requirePublished expects that a message which is published now is heard of.
func (l *listener) requirePublished(t *testing.T, s *Store, name, id string) {
	t.Helper()
	published, err := s.Publish(t.Context(), one(name, id))
	require.NoError(t, err)
	for {
		e := l.await(t, channel.EventPublished)
		if e.Message.ID == id {
			require.Equal(t, published[0].Clock, e.Clock)
			return
		}
	}
}

// requireNotListening expects no connection of the store to have a listener to a channel.
func requireNotListening(t *testing.T, s *Store, name string) {
	t.Helper()
	require.Zero(t, s.subscriptions.Listeners(s.channel(name).topic()))
}

// A listener is told of each interruption that a slot's move brings, and hears everything from then on.
func listenAcrossMoves(t *testing.T, c twoNodes) {
	t.Helper()
	s := c.open(t, Options{})
	l := listen(t, s, "listen")
	l.requirePublished(t, s, "listen", "before")
	for _, id := range []string{"m1", "m2", "m3", "m4", "m5", "m6"} {
		c.move(t, "listen")
		l.await(t, channel.EventConfirmed)
		l.requirePublished(t, s, "listen", id)
	}
	l.stop()
	requireNotListening(t, s, "listen")
}

// Listening begins on a half moved slot too, and outlives its closing.
func listenFromTheMiddle(t *testing.T, c twoNodes) {
	t.Helper()
	s := c.open(t, Options{})
	lore{messages: 2}.make(t, s, c.direct, "middle")
	m := c.openMove(t, "middle")
	var all []*listener
	for range 8 { // as many as there are keys
		all = append(all, listen(t, c.open(t, Options{}), "middle"))
		m.MoveKeys(t, 1)
	}
	m.CloseSlot(t)
	for _, l := range all {
		l.await(t, channel.EventConfirmed)
	}
	published, err := s.Publish(t.Context(), one("middle", "after"))
	require.NoError(t, err)
	for _, l := range all {
		require.Equal(t, published[0].Clock, l.await(t, channel.EventPublished).Clock)
		l.stop()
	}
	requireNotListening(t, s, "middle")
}
