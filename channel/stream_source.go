package channel

import (
	"hash/maphash"
	"slices"
	"time"

	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/receipt"
)

// streamSource is a source of a stream.
type streamSource struct {
	request FetchRequest // without Max, MaxBytes and After
	from    From         // where a tail begins
	last    Message      // without its content: the one at the stream's position, if it has that clock
	// resumed is the receipt of the client's token until it is compared with the channel's history; nil: none.
	resumed *receipt.Receipt
	mark    clock.Clock
	sent    []sentMessage // that aren't acknowledged, in clock order
	bytes   int           // of their contents
	before  []sentMessage // sent, and not acknowledged, before the last fail-over, until they are passed again
	order   uint64        // of its last message among all of the stream

	fresh   bool // its position isn't known: the first read begins at the mark, or where the tail begins
	moved   bool // an operator has set the mark: the next read begins there, and is after a gap
	lapsed  bool // the history that its client knows has ended: the next read is after a gap
	unread  bool // it has to be read
	renew   bool // it has to be read even if the window is full
	full    bool // the window is: the source is paused
	failed  bool
	checkAt time.Time // when the mark is read again while the window is full
	// kept says that it is a tail of a channel with a TTL of its own, which reads renew.
	kept bool
	// anything says that the position is that of an offset which doesn't say which message is there.
	anything bool
}

// isTail reports whether the source is a tail. A tail acknowledges by itself what is older than its last keptSent
// messages: its mark is where it continues after a fail-over.
func (src *streamSource) isTail() bool { return src.request.Tail != nil }

// isReadable reports whether the source has to be read and has room, or must be renewed.
func (src *streamSource) isReadable() bool {
	return !src.failed && (src.unread && !src.full || src.renew)
}

// sentMessage is a message that a stream has sent, and that isn't acknowledged.
type sentMessage struct {
	clock clock.Clock
	id    uint64 // see hashOf
	bytes int
}

// accept adds a batch to the arrivals. If the store reports the stream's position as lost, the stream continues at the
// mark, without what it has sent already.
func (s *Stream) accept(i int, b *Batch) {
	src, asked := &s.sources[i], s.at[i]
	lost := src.lapsed || b.Lost
	if lost {
		src.restart(b.Epoch == asked.Epoch)
		s.fill(i)
	}
	if b.After != asked.Clock || b.Epoch != asked.Epoch {
		s.at[i], src.last = Position{Epoch: b.Epoch, Clock: b.After}, Message{}
	}
	moved := src.moved && !lost
	src.fresh, src.lapsed, src.renew, src.anything, src.resumed = false, false, false, false, nil
	if src.isTail() && b.TTL > 0 {
		src.kept, s.renewal = true, min(s.renewal, b.TTL/2)
		s.renewAt = earlier(s.renewAt, time.Now().Add(s.renewal))
	}
	switch {
	case !src.isTail():
		s.acknowledged(i, b.Mark)
	case len(src.sent) == 0:
		src.setMark(b.After)
	}
	if src.full && !lost { // it was read to be renewed
		src.unread = src.unread || s.at[i].Clock != b.Clock
		return
	}
	src.moved = false
	s.addGap(i, GapLost, lost, 0)
	s.addGap(i, GapMoved, moved, 0)
	s.addGap(i, GapExpired, !lost && b.Expired > 0, b.Expired)
	s.addGap(i, GapPurged, !lost && b.Purged > 0, b.Purged)
	s.addGap(i, GapDamaged, !lost && b.Damaged > 0, b.Damaged)
	skips := false // damaged messages after the last one
	if s.deliverAll(i, b.Messages) {
		skips = s.at[i].Clock != b.Through
		s.at[i].Clock, src.last = b.Through, b.Last
	}
	src.unread = s.at[i].Clock != b.Clock
	if n := len(s.arrivals); n > 0 && s.arrivals[n-1].Source == i && (skips || s.arrivals[n-1].Gap != nil) {
		s.arrivals[n-1].Receipt = s.receipt(i)
	}
	if b.Closed && !src.unread {
		s.end(i)
	}
}

// addGap adds a gap to the arrivals if there is one.
func (s *Stream) addGap(i int, reason GapReason, is bool, count uint64) {
	if is {
		s.add(Arrival{Source: i, Gap: &Gap{Reason: reason, Count: count}})
	}
}

// skip moves the positions of sources ahead of the mark, to those of receipts. The next read finds out whether the
// channel has them.
func (s *Stream) skip(to []*receipt.Receipt) {
	for i, r := range to {
		src := &s.sources[i]
		switch {
		case r == nil || src.failed || src.fresh:
		case r.Epoch != s.at[i].Epoch:
			src.lapsed, src.unread = true, true
		case isAhead(r.Clock, s.at[i].Clock):
			s.at[i].Clock, src.last, src.unread = r.Clock, messageOf(r), true
		}
	}
}

// deliverAll adds the next messages of a source to the arrivals, without those that it has sent before. It reports
// whether there was room for all of them.
func (s *Stream) deliverAll(i int, messages []Message) bool {
	src := &s.sources[i]
	for n := range messages {
		m := &messages[n]
		if src.hasSent(m) {
			s.at[i].Clock, src.last = m.Clock, m.Identity()
			s.fill(i)
			continue
		}
		if src.full {
			return false
		}
		s.deliver(i, m)
	}
	return true
}

// deliver adds the next message of a source to the arrivals.
func (s *Stream) deliver(i int, m *Message) {
	src := &s.sources[i]
	s.sequence++
	s.at[i].Clock, src.last, src.order = m.Clock, m.Identity(), s.sequence
	src.count(sentMessage{clock: m.Clock, id: src.hashOf(m), bytes: len(m.Content)})
	s.add(Arrival{Source: i, Message: m, Receipt: s.receipt(i)})
	s.fill(i)
}

// hashOf returns a hash of a message's ID, for a subscriber also of its write: a message that was written again has to
// be sent again, with a receipt for its new write.
func (src *streamSource) hashOf(m *Message) uint64 {
	id := maphash.String(hashSeed, m.ID)
	if src.isTail() {
		return id
	}
	return id ^ maphash.Bytes(hashSeed, m.Write[:])
}

// hasSent reports whether a message was sent before a fail-over, and counts it again. The others that were sent may be
// lost: no client could acknowledge them, so they don't count any more.
func (src *streamSource) hasSent(m *Message) bool {
	n := len(src.before)
	if n == 0 {
		return false
	}
	if isAhead(m.Clock, src.before[n-1].clock) {
		src.before = nil
		return false
	}
	at := slices.IndexFunc(src.before, func(sent sentMessage) bool {
		return sent.clock == m.Clock && sent.id == src.hashOf(m)
	})
	if at >= 0 {
		src.count(src.before[at])
	}
	return at >= 0
}

// count adds a message to those that aren't acknowledged. A tail keeps the last keptSent of them.
func (src *streamSource) count(sent sentMessage) {
	if src.isTail() {
		if sent.bytes = 0; len(src.sent) == keptSent {
			src.setMark(src.sent[0].clock)
			src.sent = slices.Delete(src.sent, 0, 1)
		}
	}
	src.sent, src.bytes = append(src.sent, sent), src.bytes+sent.bytes
}

// setMark sets where a tail continues if it must.
func (src *streamSource) setMark(at clock.Clock) {
	src.mark = at
	src.begin(From{Start: StartAt, Clock: at})
}

// begin sets where a tail begins if it has no position, or the channel doesn't have it any more.
func (src *streamSource) begin(from From) {
	src.from = from
	src.request.Tail = &src.from
}

// continueAt sets the position of a tail that is resumed.
func (s *Stream) continueAt(i int, r *receipt.Receipt) {
	src := &s.sources[i]
	if r.Epoch.IsZero() && r.Clock == 0 { // the channel didn't exist: all messages are new
		src.begin(From{Start: StartEarliest})
		return
	}
	src.fresh, src.last, s.at[i] = false, messageOf(r), Position{Epoch: r.Epoch, Clock: r.Clock}
}

// messageOf returns the message of a receipt, as far as that is known.
func messageOf(r *receipt.Receipt) Message {
	return Message{ID: r.MessageID, Clock: r.Clock, Write: r.Write, PublishedAt: r.PublishedAt}
}

// lapse makes a tail wait for the next life of its channel. One that begins at a clock fails if there was none.
func (s *Stream) lapse(i int) {
	src := &s.sources[i]
	if from := src.request.Tail; src.fresh && from.Start == StartAt && from.Clock != 0 {
		s.fail(i, ErrClockAhead)
		return
	}
	src.lapsed, src.fresh, src.unread = src.lapsed || !src.fresh, true, false
	src.begin(From{Start: StartEarliest})
	src.last, s.at[i] = Message{}, noChannel
}

// seek makes the source continue at its mark, which an operator has set.
func (src *streamSource) seek() {
	if src.failed || src.isTail() {
		return
	}
	src.sent, src.bytes, src.before, src.last = nil, 0, nil, Message{}
	src.fresh, src.moved, src.unread = true, true, true
}

// restart empties the window. What is in it isn't sent again, in the same life of the channel.
func (src *streamSource) restart(sameLife bool) {
	src.before = append(src.before, src.sent...)
	if !sameLife {
		src.before = nil
	}
	src.sent, src.bytes = nil, 0
}

// keptSent is how many entries of an empty list of sent messages stay allocated.
const keptSent = 32

// acknowledged moves the mark that the stream knows.
func (s *Stream) acknowledged(i int, mark clock.Clock) {
	src := &s.sources[i]
	if mark == src.mark {
		return
	}
	src.mark = mark
	n := 0
	for ; n < len(src.sent) && clock.Behind(src.sent[n].clock, mark); n++ {
		src.bytes -= src.sent[n].bytes
	}
	if n == len(src.sent) && cap(src.sent) > keptSent {
		src.sent = nil
	} else {
		src.sent = slices.Delete(src.sent, 0, n)
	}
	if isAhead(mark, s.at[i].Clock) { // acknowledged by another reader
		src.unread = true
	}
	s.fill(i)
}

// fill sets whether a source's window is full. The mark is read at once when it becomes so: it may have been moved by
// way of another server.
func (s *Stream) fill(i int) {
	src := &s.sources[i]
	full := !src.failed && !src.isTail() && (len(src.sent) >= s.window || src.bytes >= windowBytes)
	if full == src.full {
		return
	}
	src.full, src.checkAt = full, time.Time{}
	s.watch.pause(i, full)
}
