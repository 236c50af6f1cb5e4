package director

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/tidemark-dev/tidemark/internal/pace"
)

// events are the unhandled events of a queue's watch. It may be used by many goroutines.
//
// A queue is idle on a server while the server knows of no work in it. Then it costs the server a goroutine and a
// watch, and the storage nothing. An event ends that: the server asks for the queue's lease, and gets it only if there
// is work. While another server has the lease the queue isn't idle here, so that this server takes over when that one
// dies.
type events struct {
	changed chan struct{} // buffered (capacity 1): any event
	free    chan struct{} // buffered (capacity 1): the lease may be free
	idle    atomic.Bool   // this server does not work on the queue
	visited time.Time     // when the idle queue was last checked without an event; owned by VisitIdle
}

func newEvents() *events {
	e := &events{changed: make(chan struct{}, 1), free: make(chan struct{}, 1),
		visited: time.Now().Add(pace.Jitter(visitEach) - 2*visitEach)}
	e.idle.Store(true)
	return e
}

// notify records a change, and whether the lease may be free. It never blocks.
func (e *events) notify(free bool) {
	pace.Signal(e.changed)
	if free {
		pace.Signal(e.free)
	}
}

// awaitFree waits until the lease may be free, but no longer than limit.
func (e *events) awaitFree(ctx context.Context, limit time.Duration) {
	pace.SleepUntil(ctx, limit, e.free)
}

// Idle queues are checked one after the other, in case an event was lost: at most one each visitEvery, and each queue
// at most once each visitEach.
const (
	visitEvery = 350 * time.Millisecond
	visitEach  = time.Minute
)

// VisitIdle checks the idle ones of the queues, one after the other, until ctx ends.
func VisitIdle(ctx context.Context, queues func() []*Queue) {
	for pace.Sleep(ctx, pace.Jitter(visitEvery)) {
		now := time.Now()
		if e := longestUnvisited(queues()); e != nil && now.Sub(e.visited) >= visitEach {
			e.visited = now
			e.notify(true)
		}
	}
}

// longestUnvisited returns the events of the idle queue whose last check is the oldest; nil: no queue is idle.
func longestUnvisited(queues []*Queue) *events {
	var first *events
	for _, q := range queues {
		if e := q.events; e.idle.Load() && (first == nil || e.visited.Before(first.visited)) {
			first = e
		}
	}
	return first
}
