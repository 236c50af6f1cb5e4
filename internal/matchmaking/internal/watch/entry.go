package watch

import (
	"container/heap"
	"time"
)

// entry is one wait. It is guarded by Watches' lock, except end after done is closed.
type entry struct {
	id         string
	created    int64         // of the ticket, in µs; 0: unknown before the first read
	done       chan struct{} // closed when end is final
	end        *end          // before done is closed: notifications received while created was unknown; nil: none
	prev, next *entry        // further entries with the same ID
	due        time.Time     // time of the next read
	index      int32         // in the agenda, or outside
	fresh      bool          // it is among the feed's fresh entries
	over       bool          // removed from the feed
}

// end is the result of a wait.
type end struct {
	created int64  // of the ticket
	content string // an assignment as JSON
	read    bool   // content comes from a read, not a notification
	err     error
}

// outside is the index of an entry that isn't in the agenda.
const outside = -1

// agenda is a heap of entries by the time of their next read.
type agenda []*entry

func (a agenda) Len() int           { return len(a) }
func (a agenda) Less(i, j int) bool { return a[i].due.Before(a[j].due) }
func (a agenda) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].index, a[j].index = int32(i), int32(j)
}

// Push implements heap.Interface.
func (a *agenda) Push(x any) {
	e := x.(*entry)
	e.index = int32(len(*a))
	*a = append(*a, e)
}

// Pop implements heap.Interface.
func (a *agenda) Pop() any {
	last := len(*a) - 1
	e := (*a)[last]
	(*a)[last] = nil
	*a = (*a)[:last]
	e.index = outside
	return e
}

// plan adds an entry, or changes the time of its next read.
func (a *agenda) plan(e *entry, due time.Time) {
	e.due = due
	if e.index == outside {
		heap.Push(a, e)
	} else {
		heap.Fix(a, int(e.index))
	}
}

// cancel removes an entry, if it is in the agenda.
func (a *agenda) cancel(e *entry) {
	if e.index != outside {
		heap.Remove(a, int(e.index))
	}
}

// take removes due entries, up to a limit.
func (a *agenda) take(now time.Time, limit int) (due []*entry) {
	for len(*a) > 0 && len(due) < limit && !(*a)[0].due.After(now) {
		due = append(due, heap.Pop(a).(*entry))
	}
	return due
}

// allDue makes all entries due.
func (a agenda) allDue(now time.Time) {
	for _, e := range a {
		e.due = now // any order of equal times is a heap
	}
}
