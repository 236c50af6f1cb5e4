package oracle

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
)

// Publish identifies a publish of a producer. The sequences of an epoch begin at 0; a producer publishes one after the
// other.
type Publish struct {
	Producer        string
	Epoch, Sequence int
}

// Part is one of the messages of a publish, as a reader received it.
type Part struct {
	Publish
	Number, Of int   // from 1
	Clock      int64 `json:"-"`
}

// Producers checks channels that producers publish to and close, and that readers read from the first message to the
// end.
type Producers struct {
	mu       sync.Mutex
	channels map[string]*producedLog
	fenced   int
	refused  []string
}

// producedLog is the record of one channel.
type producedLog struct {
	newest       map[string]int // the last epoch that has begun, by producer
	acknowledged map[Publish][]int64
	repeats      int
	otherwise    map[Publish]bool // answered with other clocks than the first time, or closed the channel a second time
	closed       *Publish         // whose success closed the channel
	end          int64            // its last clock
	readers      map[string]*producedHistory
}

// producedHistory is the messages that a reader has received.
type producedHistory struct {
	judged bool
	parts  []Part
	ended  bool
}

// NewProducers returns a Producers without any records.
func NewProducers() *Producers { return &Producers{channels: map[string]*producedLog{}} }

// channel returns the log of a channel. The caller holds mu.
func (p *Producers) channel(name string) *producedLog {
	c := p.channels[name]
	if c == nil {
		c = &producedLog{newest: map[string]int{}, acknowledged: map[Publish][]int64{}, otherwise: map[Publish]bool{},
			readers: map[string]*producedHistory{}}
		p.channels[name] = c
	}
	return c
}

// Reader records a reader, which must be told the end. If its history is judged, it must be that of the channel: that
// of a reader during a failover may have messages that are lost before their publish is acknowledged.
func (p *Producers) Reader(channel, reader string, judged bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.channel(channel).readers[reader] = &producedHistory{judged: judged}
}

// Begun records that a producer begins an epoch.
func (p *Producers) Begun(channel, producer string, epoch int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.channel(channel).newest[producer] = epoch
}

// Acknowledged records a successful publish and the clocks of its messages, also if it was repeated.
func (p *Producers) Acknowledged(channel string, publish Publish, clocks []int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.channel(channel)
	first, again := c.acknowledged[publish]
	if !again {
		c.acknowledged[publish] = clocks
		return
	}
	c.repeats++
	if !slices.Equal(first, clocks) {
		c.otherwise[publish] = true
	}
}

// Closed records that a successful publish closed the channel after a clock. No other one may.
func (p *Producers) Closed(channel string, publish Publish, clock int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.channel(channel)
	if c.closed == nil {
		c.closed, c.end = &publish, clock
	}
	if *c.closed != publish || c.end != clock {
		c.otherwise[publish] = true
	}
}

// HasEnd reports whether a successful publish has closed the channel.
func (p *Producers) HasEnd(channel string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.channel(channel).closed != nil
}

// Fenced records that a publish was refused since a higher epoch has published.
func (p *Producers) Fenced(channel string, publish Publish) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fenced++
	if publish.Epoch >= p.channel(channel).newest[publish.Producer] {
		p.refused = append(p.refused, fmt.Sprintf("fenced without a higher epoch: %s on %s", publish, channel))
	}
}

// Refused records an error that a producer cannot retry.
func (p *Producers) Refused(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused = append(p.refused, what)
}

// Read records the messages of one fetch, in their order.
func (p *Producers) Read(channel, reader string, parts []Part) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.channel(channel).readers[reader]
	h.parts = append(h.parts, parts...)
}

// Ended records that a reader was told the end.
func (p *Producers) Ended(channel, reader string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.channel(channel).readers[reader].ended = true
}

// Reading returns the number of readers that have not been told the end.
func (p *Producers) Reading() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	reading := 0
	for _, c := range p.channels {
		for _, h := range c.readers {
			if !h.ended {
				reading++
			}
		}
	}
	return reading
}

// ProducerVerdict counts publishes.
type ProducerVerdict struct {
	Acknowledged int
	Repeats      int // answered again
	Epochs       int
	Fenced       int // refused
	Lost         int // acknowledged and not read, or read in part
	Doubled      int // read again
	Reordered    int // read after a later one of their epoch
	Outlived     int // read after one of a higher epoch
	Late         int // read after the close
	Wrong        int // answered with other clocks than those read, or than the first time
	Unended      int // readers that were not told the end
	Refused      []string
	Examples     []string // of violations, a few
}

// Verdict returns the verdict on everything recorded.
func (p *Producers) Verdict() ProducerVerdict {
	p.mu.Lock()
	defer p.mu.Unlock()
	v := ProducerVerdict{Fenced: p.fenced, Refused: slices.Clone(p.refused)}
	for name, c := range p.channels {
		v.Acknowledged += len(c.acknowledged)
		v.Repeats += c.repeats
		for _, newest := range c.newest {
			v.Epochs += newest + 1
		}
		v.Wrong += v.examples("answered differently", name, "", c.otherwise)
		for reader, h := range c.readers {
			if !h.ended {
				v.Unended++
			}
			if !h.judged {
				continue
			}
			j := c.judge(h.parts)
			v.Lost += v.examples("lost", name, reader, j.lost)
			v.Doubled += v.examples("doubled", name, reader, j.doubled)
			v.Reordered += v.examples("out of order", name, reader, j.reordered)
			v.Outlived += v.examples("after a higher epoch", name, reader, j.outlived)
			v.Late += v.examples("after the close", name, reader, j.late)
			v.Wrong += v.examples("at another clock", name, reader, j.wrong)
		}
	}
	return v
}

// judgement has the publishes of a history that broke a promise.
type judgement struct{ lost, doubled, reordered, outlived, late, wrong map[Publish]bool }

// judge compares a history with what was acknowledged.
func (c *producedLog) judge(parts []Part) judgement {
	j := judgement{lost: map[Publish]bool{}, doubled: map[Publish]bool{}, reordered: map[Publish]bool{},
		outlived: map[Publish]bool{}, late: map[Publish]bool{}, wrong: map[Publish]bool{}}
	clocks, last := map[Publish][]int64{}, map[string]Part{}
	for i, part := range parts {
		before, some := last[part.Producer]
		got := clocks[part.Publish]
		switch {
		case part.Number <= len(got):
			j.doubled[part.Publish] = true
			continue
		case part.Number > len(got)+1:
			j.lost[part.Publish] = true
		case some && part.Epoch < before.Epoch:
			j.outlived[part.Publish] = true
		case some && part.Epoch == before.Epoch && part.Sequence < before.Sequence || i > 0 && part.Clock <= parts[i-1].Clock:
			j.reordered[part.Publish] = true
		}
		if c.closed != nil && part.Clock > c.end {
			j.late[part.Publish] = true
		}
		clocks[part.Publish] = append(got, part.Clock)
		if !some || before.Epoch <= part.Epoch {
			last[part.Producer] = part
		}
	}
	for _, part := range parts {
		if len(clocks[part.Publish]) != part.Of {
			j.lost[part.Publish] = true
		}
	}
	for publish, answered := range c.acknowledged {
		switch got := clocks[publish]; {
		case len(got) < len(answered):
			j.lost[publish] = true
		case !slices.Equal(got, answered):
			j.wrong[publish] = true
		}
	}
	return j
}

// String returns the publish in one word.
func (p Publish) String() string { return fmt.Sprintf("%s/%d/%d", p.Producer, p.Epoch, p.Sequence) }

// examples names a few publishes, and returns their number.
func (v *ProducerVerdict) examples(what, channel, reader string, publishes map[Publish]bool) int {
	all := make([]Publish, 0, len(publishes))
	for publish := range publishes {
		all = append(all, publish)
	}
	slices.SortFunc(all, func(a, b Publish) int {
		return cmp.Or(cmp.Compare(a.Producer, b.Producer), cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Sequence, b.Sequence))
	})
	for _, publish := range all[:min(len(all), maxExamples)] {
		v.Examples = append(v.Examples, fmt.Sprintf("%s: %s on %s %s", what, publish, channel, reader))
	}
	return len(publishes)
}
