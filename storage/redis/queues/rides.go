package queues

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Where tickets come one at a time, a call to remove two published entries from the outbox costs Redis as much as a tenth of
// all else. So few entries wait for a call of create.lua of the same queue, which removes them on its way. Whoever describes the queue doesn't see them.
const (
	rideEntries = 16
	rideWait    = 25 * time.Millisecond
)

// rides are published entries that wait for a call. Its methods may be called by many goroutines.
type rides struct {
	mu      sync.Mutex
	waiting map[string][]*ride // by queue
}

// ride is entries that are removed together.
type ride struct {
	entries []string
	done    chan struct{} // closed when they are removed
}

// take returns what waits for a call of a queue. Call arrived when the call has succeeded.
func (r *rides) take(queue string) []*ride {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.waiting[queue]
	delete(r.waiting, queue)
	return all
}

// entriesOf returns the entries of rides.
func entriesOf(riding []*ride) (all []string) {
	for _, r := range riding {
		all = append(all, r.entries...)
	}
	return all
}

// arrived records that the entries of rides are removed.
func arrived(riding []*ride) {
	for _, r := range riding {
		close(r.done)
	}
}

// await waits until a call has removed entries. It returns false if none has in time; one that is on its way may still do.
func (r *rides) await(ctx context.Context, queue string, entries []string) bool {
	own := &ride{entries: entries, done: make(chan struct{})}
	r.add(queue, own)
	defer r.drop(queue, own)
	timer := time.NewTimer(rideWait)
	defer timer.Stop()
	select {
	case <-own.done:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

func (r *rides) add(queue string, own *ride) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting == nil {
		r.waiting = map[string][]*ride{}
	}
	r.waiting[queue] = append(r.waiting[queue], own)
}

func (r *rides) drop(queue string, own *ride) {
	r.mu.Lock()
	defer r.mu.Unlock()
	left := slices.DeleteFunc(r.waiting[queue], func(other *ride) bool { return other == own })
	if len(left) > 0 {
		r.waiting[queue] = left
	} else {
		delete(r.waiting, queue)
	}
}
