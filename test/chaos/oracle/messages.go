package oracle

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Message identifies a message: the Seq-th of a publisher. A publisher publishes one message after the other.
type Message struct {
	Publisher string
	Seq       int
}

// Delivered is a message as a subscriber received it.
type Delivered struct {
	Message
	Clock int64
}

// Rules are the promises that a scenario suspends.
type Rules struct {
	// Failover is set if Redis may lose its last writes. Publishes without a response and acknowledgements may then be
	// lost: messages may be delivered again, and clocks may be used again. Published messages must not be lost or
	// reordered. A ticket may be lost if its player is notified.
	Failover bool
	// Partial is a queue in which a match may lack tickets that another director has assigned; empty: none.
	Partial string
}

// Messages checks the messages of any number of channels.
type Messages struct {
	rules Rules

	mu       sync.Mutex
	channels map[string]*channelLog
	expired  uint64
	refused  []string
	excused  int       // receipts refused as forged while that was allowed
	allowed  time.Time // until when receipts may be refused as forged
}

// channelLog is the record of one channel.
type channelLog struct {
	acknowledged map[Message]int64 // clock that the publisher received
	subscribers  map[string]*subscriberLog
}

// subscriberLog is the record of one subscriber.
type subscriberLog struct {
	clocks    map[Message]int64 // of the first delivery
	early     map[Message]bool  // the first delivery arrived before the response to the publish
	confirmed int64             // highest clock whose acknowledgement succeeded
	highest   int64             // highest clock delivered
	last      map[string]int    // highest Seq delivered, by publisher
	repeats   int
	doubled   map[Message]bool
	reordered map[Message]bool
}

// NewMessages returns a Messages without any records.
func NewMessages(rules Rules) *Messages {
	return &Messages{rules: rules, channels: map[string]*channelLog{}}
}

// channel returns the log of a channel. The caller holds mu.
func (m *Messages) channel(name string) *channelLog {
	c := m.channels[name]
	if c == nil {
		c = &channelLog{acknowledged: map[Message]int64{}, subscribers: map[string]*subscriberLog{}}
		m.channels[name] = c
	}
	return c
}

// Subscribed records a subscriber, which must receive every message published from now on.
func (m *Messages) Subscribed(channel, subscriber string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.channel(channel).subscribers[subscriber] = &subscriberLog{
		clocks: map[Message]int64{}, early: map[Message]bool{}, last: map[string]int{},
		doubled: map[Message]bool{}, reordered: map[Message]bool{},
	}
}

// Acknowledged records a successful publish and its clock.
func (m *Messages) Acknowledged(channel string, message Message, clock int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.channel(channel).acknowledged[message] = clock
}

// Delivered records the messages of one fetch, in their order.
func (m *Messages) Delivered(channel, subscriber string, messages []Delivered) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.channel(channel)
	s := c.subscribers[subscriber]
	for i, d := range messages {
		if i > 0 && d.Clock <= messages[i-1].Clock {
			s.reordered[d.Message] = true
		}
		if _, again := s.clocks[d.Message]; again {
			m.repeated(s, d)
			continue
		}
		_, acknowledged := c.acknowledged[d.Message]
		s.early[d.Message] = !acknowledged
		m.first(s, d)
	}
}

// first records the first delivery of a message.
func (m *Messages) first(s *subscriberLog, d Delivered) {
	behind := d.Clock <= s.highest && !m.rules.Failover
	if behind || d.Seq <= s.last[d.Publisher] {
		s.reordered[d.Message] = true
	}
	s.clocks[d.Message] = d.Clock
	s.highest = max(s.highest, d.Clock)
	s.last[d.Publisher] = max(s.last[d.Publisher], d.Seq)
}

// repeated records another delivery of a message. It is allowed until an acknowledgement of it or a later one succeeds.
func (m *Messages) repeated(s *subscriberLog, d Delivered) {
	s.repeats++
	if m.rules.Failover {
		if s.clocks[d.Message] != d.Clock && !s.early[d.Message] {
			s.doubled[d.Message] = true
		}
		s.clocks[d.Message] = d.Clock
		return
	}
	if s.clocks[d.Message] != d.Clock || d.Clock <= s.confirmed {
		s.doubled[d.Message] = true
	}
}

// Confirmed records that a subscriber's acknowledgement up to a clock succeeded.
func (m *Messages) Confirmed(channel, subscriber string, clock int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.channel(channel).subscribers[subscriber]
	s.confirmed = max(s.confirmed, clock)
}

// Expired records messages that a fetch reported as expired.
func (m *Messages) Expired(n uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expired += n
}

// Refused records an error that a client cannot retry.
func (m *Messages) Refused(what string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refused = append(m.refused, what)
}

// ReceiptLost records a receipt that was refused since the channel has lost its messages.
func (m *Messages) ReceiptLost(what string) {
	if !m.rules.Failover {
		m.Refused(what)
	}
}

// AllowForged allows receipts to be refused as forged for d, since the key that signs them was lost.
func (m *Messages) AllowForged(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.allowed = time.Now().Add(d)
}

// ReceiptForged records a receipt that was refused as forged.
func (m *Messages) ReceiptForged(what string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Now().Before(m.allowed) {
		m.excused++
		return
	}
	m.refused = append(m.refused, what)
}

// Missing returns the number of outstanding deliveries of published messages.
func (m *Messages) Missing() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	missing := 0
	for _, c := range m.channels {
		for _, s := range c.subscribers {
			for message := range c.acknowledged {
				if _, got := s.clocks[message]; !got {
					missing++
				}
			}
		}
	}
	return missing
}

// MessageVerdict counts deliveries of one message to one subscriber, except Acknowledged.
type MessageVerdict struct {
	Acknowledged int // published messages
	Delivered    int
	Repeats      int // repeated deliveries
	Lost         int // published and not delivered
	Doubled      int // delivered with two clocks, or again after the acknowledgement
	Reordered    int
	Wrong        int // delivered with another clock than the publisher received
	Expired      uint64
	Excused      int      // receipts refused as forged while that was allowed
	Refused      []string // errors that a client cannot retry
	Examples     []string // of violations, a few
}

// Faults returns the number of broken promises.
func (v MessageVerdict) Faults() int {
	return v.Lost + v.Doubled + v.Reordered + v.Wrong + int(v.Expired) + len(v.Refused)
}

// Verdict returns the verdict on everything recorded.
func (m *Messages) Verdict() MessageVerdict {
	m.mu.Lock()
	defer m.mu.Unlock()
	v := MessageVerdict{Expired: m.expired, Excused: m.excused, Refused: slices.Clone(m.refused)}
	for name, c := range m.channels {
		v.Acknowledged += len(c.acknowledged)
		for subscriber, s := range c.subscribers {
			v.Delivered += len(s.clocks)
			v.Repeats += s.repeats
			v.Doubled += v.examples("doubled", name, subscriber, s.doubled)
			v.Reordered += v.examples("out of order", name, subscriber, s.reordered)
			lost, wrong := m.compare(c, s)
			v.Lost += v.examples("lost", name, subscriber, lost)
			v.Wrong += v.examples("at another clock", name, subscriber, wrong)
		}
	}
	return v
}

// compare returns the published messages that a subscriber did not receive, or received with another clock.
func (m *Messages) compare(c *channelLog, s *subscriberLog) (lost, wrong map[Message]bool) {
	lost, wrong = map[Message]bool{}, map[Message]bool{}
	for message, clock := range c.acknowledged {
		switch got, ok := s.clocks[message]; {
		case !ok:
			lost[message] = true
		case got != clock && (!m.rules.Failover || !s.early[message]):
			wrong[message] = true
		}
	}
	return lost, wrong
}

// maxExamples bounds the messages that are named for each kind, channel and subscriber.
const maxExamples = 3

// examples names a few messages, and returns their number.
func (v *MessageVerdict) examples(what, channel, subscriber string, messages map[Message]bool) int {
	all := make([]Message, 0, len(messages))
	for message := range messages {
		all = append(all, message)
	}
	slices.SortFunc(all, func(a, b Message) int {
		return cmp.Or(cmp.Compare(a.Publisher, b.Publisher), cmp.Compare(a.Seq, b.Seq))
	})
	for _, message := range all[:min(len(all), maxExamples)] {
		v.Examples = append(v.Examples, fmt.Sprintf("%s: %s-%d on %s for %s", what, message.Publisher, message.Seq, channel,
			subscriber))
	}
	return len(messages)
}
