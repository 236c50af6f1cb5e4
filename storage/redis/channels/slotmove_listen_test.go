package channels

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/test/storagetest"
)

// listener is a Listen that a test follows.
type listener struct {
	events chan channel.Event
	stop   func()
}

// listen listens to a channel until stop is called or the test ends. It returns when the subscription is confirmed.
func listen(t *testing.T, s *Store, name string) *listener {
	t.Helper()
	l := &listener{events: make(chan channel.Event, 10000)}
	l.stop = sync.OnceFunc(s.Listen(name, func(e channel.Event) { l.events <- e }))
	t.Cleanup(l.stop)
	l.await(t, channel.EventConfirmed)
	return l
}

// await returns the next event of a kind and drops others.
func (l *listener) await(t *testing.T, kind channel.EventKind) channel.Event {
	t.Helper()
	for patience := time.After(storagetest.Patience); ; {
		select {
		case e := <-l.events:
			if e.Kind == kind {
				return e
			}
		case <-patience:
			require.FailNow(t, "the event never came", "kind %v", kind)
		}
	}
}

// requirePublished publishes a message and expects the listener to receive it.
func (l *listener) requirePublished(t *testing.T, s *Store, name, id string) {
	t.Helper()
	published, err := s.Publish(t.Context(), publishOf(name, id))
	require.NoError(t, err)
	for {
		e := l.await(t, channel.EventPublished)
		if e.Message.ID == id {
			require.Equal(t, published[0].Clock, e.Clock)
			return
		}
	}
}
