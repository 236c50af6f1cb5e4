package redis

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/redistest"
)

// A listener is told of every interruption, and hears everything from then on.
func TestFailureListenInterrupted(t *testing.T) {
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
			n := redistest.Start(t, durable)
			s := openAt(t, Options{URL: n.URL()})
			l := listen(t, s, "x")
			for _, id := range []string{"m1", "m2", "m3", "m4"} {
				l.requirePublished(t, s, "x", id)
				interrupt(t, n)
				l.await(t, channel.EventConfirmed)
			}
			l.requirePublished(t, s, "x", "m5")
			l.stop()
			requireNotListening(t, s, "x")
		})
	}
}

// A connection that has gone silent is noticed, although nobody asks for anything.
func TestFailureListenOnSilence(t *testing.T) {
	t.Parallel()
	n := redistest.Start(t, redistest.Options{})
	s := openAt(t, Options{URL: n.URL(), Timeout: 400 * time.Millisecond})
	l := listen(t, s, "x")
	n.Pause(t)
	awaitEnd(subscriberOf(t, s))
	n.Resume(t)
	l.await(t, channel.EventConfirmed)
	l.requirePublished(t, s, "x", "m1")
}

// A listener can be stopped at any moment, and is forgotten.
func TestFailureListenEnds(t *testing.T) {
	t.Parallel()
	n := redistest.Start(t, redistest.Options{})
	s := openAt(t, Options{URL: n.URL()})
	for i := range 300 { // before, while and after it is confirmed
		confirmed := make(chan struct{}, 1)
		stop := s.Listen("x", func(channel.Event) { signal(confirmed) })
		switch i % 3 {
		case 1:
			_, _ = s.Position(t.Context(), "x") // about as long as a subscription takes
		case 2:
			<-confirmed
		}
		stop()
	}
	requireNotListening(t, s, "x")

	busy := listen(t, s, "busy")
	done := make(chan error)
	go func() { done <- publishAll(t.Context(), s, "busy", "m", 200, func() {}) }()
	busy.await(t, channel.EventPublished)
	busy.stop()
	require.NoError(t, <-done)
	requireNotListening(t, s, "busy")

	paused := listen(t, s, "paused")
	n.Pause(t)
	paused.stop()
	n.Resume(t)
	waitFor(t, "Redis to see to what it was sent", func() bool { return s.Ready(t.Context()) == nil })
	requireNotListening(t, s, "paused")
}

// Subscribers of several channels listen on one connection and get only what is theirs.
func TestFailureListenToManyChannels(t *testing.T) {
	t.Parallel()
	n := redistest.Start(t, redistest.Options{})
	s := openAt(t, Options{URL: n.URL()})
	names := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	var all []*listener
	for _, name := range names {
		all = append(all, listen(t, s, name))
	}
	require.NoError(t, n.Do(t, "CLIENT", "KILL", "TYPE", "pubsub").Error())
	for i, name := range names {
		all[i].await(t, channel.EventConfirmed)
		all[i].requirePublished(t, s, name, "of-"+name)
	}
	for i, name := range names {
		all[i].stop()
		requireNotListening(t, s, name)
		require.Empty(t, all[i].events)
	}
}

// subscriberOf returns the only connection on which a store listens.
func subscriberOf(t *testing.T, s *Store) *subscriber {
	t.Helper()
	s.subscriptions.mu.Lock()
	defer s.subscriptions.mu.Unlock()
	require.Len(t, s.subscriptions.nodes, 1)
	for _, at := range s.subscriptions.nodes {
		return at
	}
	return nil
}

// awaitEnd waits until a connection has ended.
func awaitEnd(at *subscriber) {
	<-at.ended //nolint:errcheck // it only says why
}
