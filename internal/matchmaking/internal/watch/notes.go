package watch

import (
	"time"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/pace"
)

const (
	// noteLife is the life of a note: a player normally waits for the ticket at once.
	noteLife = 10 * time.Second
	// maxNoteBytes limits the memory of all notes of a server. Further tickets are not noted.
	maxNoteBytes = 32 << 20
	noteBytes    = 256 // approximate size of a note without the assignment
)

// notes are the tickets that this server creates, ordered by the end of their notes. They are guarded by Watches' lock.
type notes struct {
	watches *Watches
	byID    map[string]*note
	oldest  []*note
}

// note is a ticket that this server creates.
type note struct {
	id      string
	created int64     // in µs; 0: not yet known
	expires time.Time // approximate end of the ticket's life
	until   time.Time // the end of the note
	result  *result   // the notification; nil: none
	bytes   int       // of noteBytes; 0: removed from notes
}

func newNotes(w *Watches) notes { return notes{watches: w, byID: map[string]*note{}} }

// Expectation is a ticket that is being created.
type Expectation struct {
	watches *Watches
	note    *note
}

// Expect notes a ticket that this server is about to create, if a wait for it can then omit the read. Call Created
// after its creation. Its ID must never have been used, and never be reused.
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
	return Expectation{watches: w, note: n}
}

// Created completes the note of a created ticket.
func (x Expectation) Created(t *matchmaking.Ticket) {
	if x.note == nil {
		return
	}
	x.watches.mu.Lock()
	defer x.watches.mu.Unlock()
	x.note.created, x.note.expires = t.CreateTime.UnixMicro(), time.Now().Add(t.TTL)
}

func (s *notes) has(id string) bool { return s.byID[id] != nil }

// record records a notification about a noted ticket.
func (s *notes) record(id string, e *result) {
	n := s.byID[id]
	if s.watches.noteBytes+len(e.content) > maxNoteBytes {
		s.drop(n)
		return
	}
	n.bytes += len(e.content)
	s.watches.noteBytes += len(e.content)
	n.result = e
}

// remove removes and returns the note of a ticket; nil: no note.
func (s *notes) remove(id string) *note {
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
	s.watches.noteBytes -= n.bytes
	n.bytes, n.result = 0, nil
	delete(s.byID, n.id)
}

// forget removes expired notes, and returns the time when the next one expires; zero: no notes.
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
