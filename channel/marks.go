package channel

import (
	"sync"

	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/receipt"
)

// marks tells streams about acknowledgements by way of this server, and about marks that operators have set. Many
// goroutines may use it.
type marks struct {
	mu       sync.RWMutex // taken before a watch's, never after
	watching map[target][]*sourceWatch
}

func newMarks() *marks { return &marks{watching: make(map[target][]*sourceWatch)} }

// markWatch is a stream's part of the marks.
type markWatch struct {
	nudge func() // called when the mark of a paused source has moved, or any was set; it must not block

	mu      sync.Mutex // guards the rest, and the fields of its sources
	moved   bool       // the mark of any source has moved, or was set
	sources []sourceWatch
}

// sourceWatch is a source of a markWatch.
type sourceWatch struct {
	of     *markWatch
	acked  Position // the furthest receipt
	moved  bool
	sought bool // an operator has set the mark
	paused bool // the stream sends nothing until the mark moves
}

// watch returns the watch of a stream, which must be ended by unwatch.
func (m *marks) watch(targets []target, nudge func()) *markWatch {
	w := &markWatch{nudge: nudge, sources: make([]sourceWatch, len(targets))}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, t := range targets {
		w.sources[i].of = w
		m.watching[t] = append(m.watching[t], &w.sources[i])
	}
	return w
}

// unwatch ends a watch.
func (m *marks) unwatch(w *markWatch, targets []target) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, t := range targets {
		all := m.watching[t]
		for n := range all {
			if all[n] == &w.sources[i] {
				all[n], all[len(all)-1] = all[len(all)-1], nil
				all = all[:len(all)-1]
				break
			}
		}
		if m.watching[t] = all; len(all) == 0 {
			delete(m.watching, t)
		}
	}
}

// acknowledged tells the streams of a subscriber that its mark is at a receipt, or past it. nil is no receipt.
func (m *marks) acknowledged(r *receipt.Receipt) {
	if r == nil {
		return
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	if len(m.watching) == 0 {
		return
	}
	for _, w := range m.watching[target{channel: r.Channel, subscriber: r.Subscriber}] {
		w.note(Position{Epoch: r.Epoch, Clock: r.Clock})
	}
}

func (s *sourceWatch) note(acked Position) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if s.moved && s.acked.Epoch == acked.Epoch && clock.Behind(acked.Clock, s.acked.Clock) {
		return // an earlier receipt again
	}
	s.acked, s.moved, s.of.moved = acked, true, true
	if s.paused {
		s.of.nudge()
	}
}

// sought tells the streams of a subscriber that an operator has set its mark.
func (m *marks) sought(t target) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, w := range m.watching[t] {
		w.seek()
	}
}

func (s *sourceWatch) seek() {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.moved, s.sought, s.of.moved = false, true, true // an earlier receipt doesn't count any more
	s.of.nudge()
}

// nudge ends the sleep of all streams.
func (m *marks) nudge() {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, all := range m.watching {
		for _, s := range all {
			s.of.nudge()
		}
	}
}

// pause sets whether a source is paused. An acknowledgement that was noted before doesn't nudge: the stream takes it
// before it sleeps.
func (w *markWatch) pause(i int, paused bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sources[i].paused = paused
}

// movedMark is an acknowledgement of a source, or that its mark was set.
type movedMark struct {
	source int
	acked  Position // zero: there is none
	sought bool     // before it, an operator has set the mark
}

// take returns the last acknowledgement of each source that has one since the last call.
func (w *markWatch) take() (all []movedMark) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.moved {
		return nil
	}
	w.moved = false
	for i := range w.sources {
		s := &w.sources[i]
		if !s.moved && !s.sought {
			continue
		}
		m := movedMark{source: i, sought: s.sought}
		if s.moved {
			m.acked = s.acked
		}
		s.moved, s.sought = false, false
		all = append(all, m)
	}
	return all
}
