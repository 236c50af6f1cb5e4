package queues

import (
	"context"
	"slices"
	"sync"
	"time"
)

// When tickets are created one at a time, a call to remove two published entries from the outbox costs Redis as much as
// a tenth of all other work. So small numbers of entries wait for a call of create.lua of the same queue, which also
// removes them. Describe removes them first, and so doesn't count them.
const (
	most     = 16 // entries that are removed together: more justify a separate call
	patience = 25 * time.Millisecond
)

// removals are published entries that wait for a call. Its methods may be called by many goroutines.
type removals struct {
	mu      sync.Mutex
	waiting map[string][]*removal // by queue
}

// removal is a set of entries that are removed together.
type removal struct {
	entries []string
	Done    chan struct{} // closed when they are removed
}

// Take returns the entries that wait for a call of a queue. Call Arrived after the call has succeeded.
func (r *removals) Take(queue string) []*removal {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.waiting[queue]
	delete(r.waiting, queue)
	return all
}

// entriesOf returns the entries of rides.
func entriesOf(riding []*removal) (all []string) {
	for _, r := range riding {
		all = append(all, r.entries...)
	}
	return all
}

// removed records that the entries of rides are removed.
func removed(riding []*removal) {
	for _, r := range riding {
		close(r.Done)
	}
}

// Await waits until a call has removed entries. It returns false at once if they are too many, and if no call has
// removed them in time; a call in progress may still do so.
func (r *removals) Await(ctx context.Context, queue string, entries []string) bool {
	if len(entries) > most {
		return false
	}
	own := r.Add(queue, entries)
	defer r.drop(queue, own)
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-own.Done:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// Add queues entries for the next call, without a time limit.
func (r *removals) Add(queue string, entries []string) *removal {
	own := &removal{entries: entries, Done: make(chan struct{})}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting == nil {
		r.waiting = map[string][]*removal{}
	}
	r.waiting[queue] = append(r.waiting[queue], own)
	return own
}

func (r *removals) drop(queue string, own *removal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	left := slices.DeleteFunc(r.waiting[queue], func(other *removal) bool { return other == own })
	if len(left) > 0 {
		r.waiting[queue] = left
	} else {
		delete(r.waiting, queue)
	}
}
