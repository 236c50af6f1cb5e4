package tier

import (
	"sync"
	"time"

	"github.com/tidemark-dev/tidemark/internal/records"
)

// Bounds of recent.
const (
	// how long a change is known: at least that, at most twice
	recentFor = 5 * time.Second
	// IDs of a kind, of each recentFor
	maxRecent = 10_000
	// bytes of the values of a kind that this process has written, of each recentFor
	maxWritten = 8 << 20
)

// recent is the IDs of a kind that have changed in the last seconds, as far as this process knows, and the
// values that it has written itself. Its zero value is usable, by many goroutines.
type recent struct {
	mu      sync.Mutex
	writing map[string]*writers
	turned  time.Time // when young began
	young   changes
	old     changes
}

// changes are the changes within a recentFor.
type changes struct {
	ids   map[string]*written // nil: changed, it isn't known to what
	bytes int                 // of the values
}

// written is a value that this process has put, or, without Found, that it has removed.
type written struct {
	records.Entry

	ends time.Time // zero: never
}

// writers are the writes of an ID that are in progress in this process.
type writers struct {
	count int
	mixed bool // there was more than one at a time: it isn't known which of them is the last
	last  bool // theirs is the last change that was reported
}

// changed records that a value has changed. For own see records.CacheStore's Listen.
func (r *recent) changed(id string, own bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.change(id, nil)
	if w := r.writing[id]; w != nil {
		w.last = own
	}
}

// change records that a value has changed, and to what unless w is nil. The caller holds the lock.
func (r *recent) change(id string, w *written) {
	r.turn(time.Now())
	if _, ok := r.young.ids[id]; !ok && len(r.young.ids) >= maxRecent {
		r.old.forget(id)
		return
	}
	r.young.forget(id)
	if w != nil && r.young.bytes+len(w.Bytes) > maxWritten {
		w = nil
	}
	if w != nil {
		r.young.bytes += len(w.Bytes)
	}
	if r.young.ids == nil {
		r.young.ids = map[string]*written{}
	}
	r.young.ids[id] = w
}

// forget records that it isn't known any more to what a value has changed.
func (c *changes) forget(id string) {
	if w := c.ids[id]; w != nil {
		c.ids[id] = nil
		c.bytes -= len(w.Bytes)
	}
}

// turn drops old changes. The caller holds the lock.
func (r *recent) turn(now time.Time) {
	switch since := now.Sub(r.turned); {
	case since < recentFor:
	case since < 2*recentFor:
		r.old, r.young, r.turned = r.young, changes{}, r.turned.Add(recentFor)
	default:
		r.old, r.young, r.turned = changes{}, changes{}, now
	}
}

// write begins a write of values. The caller must call end with what it has written of each, or with nil if the write
// has failed. That is known for those whose last change, as far as was reported meanwhile, is this write.
func (r *recent) write(ids ...string) (end func(w *written)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.writing == nil {
		r.writing = map[string]*writers{}
	}
	for _, id := range ids {
		if r.writing[id] == nil {
			r.writing[id] = &writers{}
		}
		r.writing[id].count++
		r.writing[id].mixed = r.writing[id].count > 1 || r.writing[id].mixed
	}
	return func(w *written) {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, id := range ids {
			writers := r.writing[id]
			if writers.last && !writers.mixed {
				r.change(id, w)
			} else {
				r.change(id, nil)
			}
			if writers.count--; writers.count == 0 {
				delete(r.writing, id)
			}
		}
	}
}

// has reports whether an ID has changed. The caller holds the lock.
func (r *recent) has(id string) bool {
	_, young := r.young.ids[id]
	_, old := r.old.ids[id]
	return young || old
}

// without returns the IDs that haven't changed.
func (r *recent) without(ids []string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn(time.Now())
	if len(r.young.ids)+len(r.old.ids) == 0 {
		return ids
	}
	others := make([]string, 0, len(ids))
	for _, id := range ids {
		if !r.has(id) {
			others = append(others, id)
		}
	}
	return others
}

// remove removes the values whose IDs have changed.
func (r *recent) remove(from map[string][]byte) map[string][]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.young.ids)+len(r.old.ids) == 0 {
		return from
	}
	for id := range from {
		if r.has(id) {
			delete(from, id)
		}
	}
	return from
}

// written returns what this process has written last, if nothing has changed it since, as far as it knows; and the
// other IDs.
func (r *recent) written(ids []string) (own map[string]records.Entry, others []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	r.turn(now)
	own = map[string]records.Entry{}
	for _, id := range ids {
		w, ok := r.young.ids[id]
		if !ok {
			w = r.old.ids[id]
		}
		switch {
		case w == nil:
			others = append(others, id)
		case !w.ends.IsZero() && !now.Before(w.ends):
			own[id] = records.Entry{}
		default:
			own[id] = w.Entry
		}
	}
	return own, others
}
