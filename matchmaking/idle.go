package matchmaking

import (
	"context"
	"sync/atomic"
	"time"
)

// A queue is idle on a server where that server knows of nothing to do in it. Then it costs the server a goroutine and
// a watch, and the storage nothing. It isn't idle any more once the watch tells of a change, or says that changes may
// have been missed: then the server asks for the queue's direction, which it gets only where there is something to do.
// As long as another has it the queue isn't idle here, so that this server takes over when that one dies.

// news is what the watch of a queue has told of and nobody has looked at.
type news struct {
	changed chan struct{} // buffered (capacity 1): anything
	free    chan struct{} // buffered (capacity 1): the direction may be free
	idle    atomic.Bool   // nobody works on the queue on this server
}

func newNews() *news {
	n := &news{changed: make(chan struct{}, 1), free: make(chan struct{}, 1)}
	n.idle.Store(true)
	return n
}

// tell records a change, and whether the direction may be free. It never blocks, and may be called by many.
func (n *news) tell(free bool) {
	signal(n.changed)
	if free {
		signal(n.free)
	}
}

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// awaitChange waits for a change, but no longer than limit. It reports whether ctx is alive.
func (n *news) awaitChange(ctx context.Context, limit time.Duration) bool {
	return pauseUntil(ctx, limit, n.changed)
}

// awaitFree waits until the direction may be free, but no longer than limit.
func (n *news) awaitFree(ctx context.Context, limit time.Duration) {
	pauseUntil(ctx, limit, n.free)
}

// Idle queues are looked at one after the other, in case a change was missed all the same: all of them together so often
// at most, and each of them so often at most.
const (
	visitEvery = 350 * time.Millisecond
	visitEach  = time.Minute
)

// visitIdle has idle queues looked at, one after the other, until ctx ends.
func (s *Service) visitIdle(ctx context.Context) {
	for ctx.Err() == nil {
		all := s.watched()
		each := max(visitEvery, visitEach/time.Duration(max(len(all), 1)))
		if len(all) == 0 {
			pause(ctx, each)
		}
		for _, n := range all {
			if pause(ctx, jitter(each)) && n.idle.Load() {
				n.tell(true)
			}
		}
	}
}

// watched lists what is watched.
func (s *Service) watched() []*news {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*news, 0, len(s.news))
	for _, n := range s.news {
		all = append(all, n)
	}
	return all
}
