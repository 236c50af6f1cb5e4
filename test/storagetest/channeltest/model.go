package channeltest

import (
	"bytes"
	"fmt"
	"time"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/receipt"
)

// maxWalk bounds a walk over the clocks of a channel.
const maxWalk = 1_000_000

// model is the expected behavior of a channel: the simplest correct implementation, in memory.
type model struct {
	keep     int // the policy's MaxMessages
	life     int // number of lives, including the current one
	exists   bool
	base     clock.Clock // the clock at the beginning of this life
	clock    clock.Clock
	messages map[clock.Clock]channel.Draft // messages that haven't expired
	records  map[string]clock.Clock
	marks    map[string]clock.Clock
}

// end ends the channel's life.
func (m *model) end() {
	*m = model{
		keep: m.keep, life: m.life,
		messages: map[clock.Clock]channel.Draft{}, records: map[string]clock.Clock{}, marks: map[string]clock.Clock{},
	}
}

func (m *model) begin() {
	if !m.exists {
		m.exists = true
		m.life++
	}
}

func (m *model) publish(drafts []channel.Draft) []channel.Published {
	started := !m.exists
	m.begin()
	published := make([]channel.Published, len(drafts))
	for i, d := range drafts {
		if first, ok := m.records[d.ID]; ok {
			m, alive := m.messages[first]
			published[i] = channel.Published{ID: d.ID, Clock: first, Duplicate: true,
				Differs: alive && !bytes.Equal(m.Content, d.Content)}
			continue
		}
		m.clock = m.clock.Next()
		m.messages[m.clock], m.records[d.ID] = d, m.clock
		if m.keep > 0 {
			delete(m.messages, m.clock.Sub(uint64(m.keep)))
		}
		published[i] = channel.Published{ID: d.ID, Clock: m.clock}
	}
	published[0].Begun = started
	return published
}

func (m *model) subscribe(name string, from channel.From) (channel.Subscription, error) {
	if at, ok := m.marks[name]; ok {
		return channel.Subscription{Position: channel.Position{Clock: at}}, nil
	}
	at := m.clock
	switch from.Start {
	case channel.StartLatest:
	case channel.StartEarliest:
		if alive := m.alive(); len(alive) > 0 {
			at = alive[0].Sub(1)
		}
	case channel.StartAt:
		if !clock.Behind(from.Clock, m.clock) {
			return channel.Subscription{}, channel.ErrClockAhead
		}
		at = from.Clock
	}
	m.begin()
	m.marks[name] = at
	return channel.Subscription{Created: true, Position: channel.Position{Clock: at}}, nil
}

// alive returns the clocks of the messages that haven't expired, in order.
func (m *model) alive() []clock.Clock {
	var found []clock.Clock
	for c := range clock.After(m.base, m.clock, maxWalk) {
		if _, ok := m.messages[c]; ok {
			found = append(found, c)
		}
	}
	return found
}

func (m *model) fetch(name string, limit int) (channel.Batch, error) {
	at, ok := m.marks[name]
	if !ok {
		return channel.Batch{}, channel.ErrNoSubscriber
	}
	b := channel.Batch{Mark: at, After: at, Through: at, Clock: m.clock}
	for c := range clock.After(at, m.clock, maxWalk) {
		if len(b.Messages) == limit {
			break
		}
		b.Through = c
		if d, ok := m.messages[c]; ok {
			b.Messages = append(b.Messages, channel.Message{ID: d.ID, Clock: c, Content: d.Content})
		} else {
			b.Expired++
		}
	}
	return b, nil
}

// ack acknowledges a receipt that was made in a life.
func (m *model) ack(r receipt.Receipt, life int) error {
	at, ok := m.marks[r.Subscriber]
	switch {
	case !ok:
		return channel.ErrNoSubscriber
	case life != m.life:
		return channel.ErrReceiptEpoch
	case clock.Behind(r.Clock, at):
		return nil
	case !clock.Between(at, r.Clock, m.clock):
		return channel.ErrReceiptAhead
	case !m.held(r):
		return channel.ErrReceiptSuperseded
	}
	m.marks[r.Subscriber] = r.Clock
	return nil
}

// held reports whether the receipt's message can have been at its clock: the message or its dedup record is at that
// clock, or its life has ended. A receipt for no message is valid if there is none.
func (m *model) held(r receipt.Receipt) bool {
	if current, alive := m.messages[r.Clock]; alive {
		return current.ID == r.MessageID
	}
	if r.MessageID == "" {
		return true
	}
	if at, ok := m.records[r.MessageID]; ok {
		return at == r.Clock
	}
	if r.PublishedAt.IsZero() {
		return m.keep == 0 || clock.Distance(r.Clock, m.clock) < uint64(m.keep)
	}
	return time.Since(r.PublishedAt) >= ttl
}

// expired reports whether the message of a receipt and its dedup record have expired.
func (m *model) expired(r receipt.Receipt) bool {
	_, alive := m.messages[r.Clock]
	_, recorded := m.records[r.MessageID]
	return !alive && !recorded
}

// state returns the expected description of the channel as text, without epoch and life.
func (m *model) state() string {
	if !m.exists {
		return channel.ErrNoChannel.Error()
	}
	live, oldest := uint64(0), clock.Clock(0)
	if alive := m.alive(); len(alive) > 0 {
		oldest = alive[0]
		live = clock.Distance(oldest, m.clock) + 1
	}
	text := fmt.Sprintf("clock %s, %d live from %s", m.clock, live, oldest)
	for _, name := range modelSubscribers {
		if at, ok := m.marks[name]; ok {
			text += fmt.Sprintf(", %s at %s with lag %d", name, at, clock.Distance(at, m.clock))
		}
	}
	return text
}

// stateOf returns a description in the form of state.
func stateOf(d channel.Description) string {
	if d.Live == 0 {
		d.Oldest = 0 // undefined
	}
	text := fmt.Sprintf("clock %s, %d live from %s", d.Clock, d.Live, d.Oldest)
	for _, sub := range d.Subscribers {
		text += fmt.Sprintf(", %s at %s with lag %d", sub.Name, sub.Mark, sub.Lag)
	}
	return text
}
