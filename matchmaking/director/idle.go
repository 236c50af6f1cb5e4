package director

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/tidemark-dev/tidemark/matchmaking/internal/pace"
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
	visited time.Time     // when the queue was looked at for no reason; owned by visitIdle
}

func newNews() *news {
	n := &news{changed: make(chan struct{}, 1), free: make(chan struct{}, 1), visited: time.Now().Add(pace.Jitter(visitEach) - 2*visitEach)}
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
	return pace.SleepUntil(ctx, limit, n.changed)
}

// awaitFree waits until the direction may be free, but no longer than limit.
func (n *news) awaitFree(ctx context.Context, limit time.Duration) {
	pace.SleepUntil(ctx, limit, n.free)
}

// Idle queues are looked at one after the other, in case a change was missed all the same: one in visitEvery at most, and
// each of them one visitEach after the last time at the earliest.
const (
	visitEvery = 350 * time.Millisecond
	visitEach  = time.Minute
)

// VisitIdle has the idle ones of the queues looked at, one after the other, until ctx ends.
func VisitIdle(ctx context.Context, queues func() []*Queue) {
	for pace.Sleep(ctx, pace.Jitter(visitEvery)) {
		now := time.Now()
		if n := longestUnvisited(queues()); n != nil && now.Sub(n.visited) >= visitEach {
			n.visited = now
			n.tell(true)
		}
	}
}

// longestUnvisited returns the news of the idle queue that was looked at first; nil: none is idle.
func longestUnvisited(queues []*Queue) *news {
	var first *news
	for _, q := range queues {
		if n := q.news; n.idle.Load() && (first == nil || n.visited.Before(first.visited)) {
			first = n
		}
	}
	return first
}
