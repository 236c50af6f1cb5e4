package watch

import (
	"time"

	"github.com/tidemark-dev/tidemark/internal/pace"
	"github.com/tidemark-dev/tidemark/matchmaking"
)

const (
	// noteLife is how long a note lasts: as a rule the player waits for the ticket at once.
	noteLife = 10 * time.Second
	// maxNoteBytes limits the memory of all notes of a server. Tickets beyond it are not noted.
	maxNoteBytes = 32 << 20
	noteBytes    = 256 // of a note without the assignment, about
)

// notes is tickets that this server creates, in the order in which their notes end. Watches' lock guards it.
type notes struct {
	all    *Watches
	byID   map[string]*note
	oldest []*note
}

// note is a ticket that this server creates.
type note struct {
	id      string
	created int64     // in µs; 0: not known yet
	expires time.Time // about when the ticket's life ends
	until   time.Time // the end of the note
	end     *end      // what was notified; nil: nothing
	bytes   int       // of noteBytes; 0: it is not in notes anymore
}

func newNotes(w *Watches) notes { return notes{all: w, byID: map[string]*note{}} }

// Expectation is a ticket that is being created.
type Expectation struct {
	all  *Watches
	note *note
}

// Expect notes a ticket that this server is about to create, if waiting for it can then do without a read. Call Created
// once it is created. Its ID must never have been used, and never be used again.
func (w *Watches) Expect(queue, id string) Expectation {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.feeds[queue]
	if f == nil || !f.confirmed || f.notes.has(id) || w.noteBytes+noteBytes > maxNoteBytes {
		return Expectation{}
	}
	now := time.Now()
	f.notes.forget(now)
	n := &note{id: id, until: now.Add(noteLife), bytes: noteBytes}
	w.noteBytes += n.bytes
	f.notes.byID[id] = n
	if f.notes.oldest = append(f.notes.oldest, n); len(f.notes.oldest) == 1 {
		pace.Signal(f.wake)
	}
	return Expectation{all: w, note: n}
}

// Created completes the note of a ticket that was created.
func (x Expectation) Created(t *matchmaking.Ticket) {
	if x.note == nil {
		return
	}
	x.all.mu.Lock()
	defer x.all.mu.Unlock()
	x.note.created, x.note.expires = t.CreateTime.UnixMicro(), time.Now().Add(t.TTL)
}

func (s *notes) has(id string) bool { return s.byID[id] != nil }

// hear records what was notified about a noted ticket.
func (s *notes) hear(id string, e *end) {
	n := s.byID[id]
	if s.all.noteBytes+len(e.content) > maxNoteBytes {
		s.drop(n)
		return
	}
	n.bytes += len(e.content)
	s.all.noteBytes += len(e.content)
	n.end = e
}

// take removes and returns the note of a ticket; nil: there is none.
func (s *notes) take(id string) *note {
	n := s.byID[id]
	if n == nil {
		return nil
	}
	taken := *n
	s.drop(n)
	return &taken
}

// drop removes a note. It stays in oldest until its end, without the assignment.
func (s *notes) drop(n *note) {
	s.all.noteBytes -= n.bytes
	n.bytes, n.end = 0, nil
	delete(s.byID, n.id)
}

// forget removes notes that have ended, and returns when the next one does; zero: there is none.
func (s *notes) forget(now time.Time) (next time.Time) {
	for len(s.oldest) > 0 {
		n := s.oldest[0]
		if n.bytes > 0 && n.until.After(now) {
			return n.until
		}
		if n.bytes > 0 {
			s.drop(n)
		}
		s.oldest[0] = nil
		s.oldest = s.oldest[1:]
	}
	return time.Time{}
}

// clear removes all notes.
func (s *notes) clear() {
	for _, n := range s.byID {
		s.drop(n)
	}
	clear(s.oldest)
	s.oldest = nil
}
