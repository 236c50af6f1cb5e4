package channeltest

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/oklog/ulid/v2"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/receipt"
)

func modelCases() []testCase {
	return []testCase{{Name: "random calls agree with a model", Run: random}}
}

var modelSubscribers = []string{"x", "y"}

// machine makes the same calls on a channel of the store and on the model, and compares the results.
type machine struct {
	s        *testChannel
	m        *model
	serial   int               // makes new contents and IDs
	epochs   map[int]ulid.ULID // by life, if known
	receipts []modelReceipt
}

// modelReceipt is a receipt and the life in which it was made.
type modelReceipt struct {
	receipt.Receipt
	life int
}

func random(s *testChannel) {
	channels := 0
	rapid.Check(s.T, func(t *rapid.T) {
		channels++
		keep := rapid.SampledFrom([]int{0, 0, 1, 3, 20}).Draw(t, "keep")
		start := rapid.SampledFrom([]int{0, 1, 2, 3}).Draw(t, "start")
		c := &machine{s: s.On(fmt.Sprintf("random%d", channels)), m: &model{keep: keep}, epochs: map[int]ulid.ULID{}}
		c.m.end()
		c.s.Policy.MaxMessages = keep
		if at := starts[start].At; at != 0 {
			c.s.StartAt(at)
			c.m.begin()
			c.m.base, c.m.clock = at, at
		}
		t.Repeat(map[string]func(*rapid.T){
			"":               c.check,
			"publish":        c.publish,
			"subscribe":      c.subscribe,
			"unsubscribe":    c.unsubscribe,
			"fetch":          c.fetch,
			"ack":            c.ack,
			"next":           c.next,
			"expireMessages": c.expireMessages,
			"expireRecord":   c.expireRecord,
			"expireMark":     c.expireMark,
			"expireChannel":  c.expireChannel,
		})
	})
}

// check compares the channel's description and position.
func (c *machine) check(t *rapid.T) {
	d, err := c.s.TryDescribe()
	got := stateOf(d)
	if errors.Is(err, channel.ErrNoChannel) {
		got, err = channel.ErrNoChannel.Error(), nil
	}
	c.sameError(t, err, nil)
	p, err := c.s.TryPosition()
	if missing := errors.Is(err, channel.ErrNoChannel); missing == c.m.exists || err != nil && !missing ||
		p != d.Position {
		t.Fatalf("the position is %v, %v, and the description has %v", p, err, d.Position)
	}
	if want := c.m.state(); got != want {
		t.Fatalf("the description is\n%s\nand should be\n%s", got, want)
	}
	if c.m.exists {
		c.sameEpoch(t, d.Epoch)
	}
}

// sameError compares errors, and reports whether the call should succeed.
func (c *machine) sameError(t *rapid.T, got, want error) bool {
	if !errors.Is(got, want) {
		t.Fatalf("the error is %v and should be %v", got, want)
	}
	return want == nil
}

// sameEpoch checks that each life has one epoch, different from the epochs of earlier lives.
func (c *machine) sameEpoch(t *rapid.T, got ulid.ULID) {
	if epoch, ok := c.epochs[c.m.life]; ok {
		if got != epoch {
			t.Fatalf("the epoch is %s and was %s before in the same life", got, epoch)
		}
		return
	}
	for _, earlier := range c.epochs {
		if got == earlier {
			t.Fatalf("the epoch %s is that of an earlier life", got)
		}
	}
	c.epochs[c.m.life] = got
}

func (c *machine) publish(t *rapid.T) {
	var drafts []channel.Draft
	for range rapid.SampledFrom([]int{1, 1, 2, 3, 5, 20}).Draw(t, "messages") {
		c.serial++
		id := rapid.SampledFrom([]string{"a", "b", "c", "d", "", ""}).Draw(t, "id")
		if id == "" {
			id = fmt.Sprintf("new%d", c.serial)
		}
		drafts = append(drafts, channel.Draft{ID: id, Content: fmt.Appendf(nil, "%d", c.serial)})
	}
	got, err := c.s.Store.Publish(c.s.Ctx(), channel.PublishRequest{Channel: c.s.Name, Drafts: drafts,
		Policy: c.s.Policy})
	c.sameError(t, err, nil)
	if got, want := fmt.Sprint(withoutEpochs(got)), fmt.Sprint(c.m.publish(drafts)); got != want {
		t.Fatalf("publish returns\n%s\nand should return\n%s", got, want)
	}
}

func (c *machine) subscriber(t *rapid.T) string {
	return rapid.SampledFrom(modelSubscribers).Draw(t, "subscriber")
}

func (c *machine) subscribe(t *rapid.T) {
	from := channel.From{Start: rapid.SampledFrom(
		[]channel.Start{channel.StartLatest, channel.StartEarliest, channel.StartAt}).Draw(t, "from")}
	if from.Start == channel.StartAt {
		length := clock.Distance(c.m.base, c.m.clock)
		from.Clock = c.m.base.Add(rapid.Uint64Range(0, length+2).Draw(t, "clock"))
	}
	name := c.subscriber(t)
	got, err := c.s.TrySubscribe(name, from)
	want, wantErr := c.m.subscribe(name, from)
	if !c.sameError(t, err, wantErr) {
		return
	}
	if got.Created != want.Created || got.Clock != want.Clock {
		t.Fatalf("subscribe returns %v and should return %v", got, want)
	}
	c.sameEpoch(t, got.Epoch)
}

func (c *machine) unsubscribe(t *rapid.T) {
	name := c.subscriber(t)
	c.sameError(t, c.s.Store.Unsubscribe(c.s.Ctx(), c.s.Name, name, ulid.ULID{}), nil)
	delete(c.m.marks, name)
}

func (c *machine) limit(t *rapid.T) int {
	return rapid.SampledFrom([]int{1, 2, 3, 10, 16, 17, 100}).Draw(t, "max")
}

func (c *machine) fetch(t *rapid.T) {
	r := c.s.Request(c.subscriber(t), c.limit(t))
	got, err := c.s.Store.Fetch(c.s.Ctx(), r)
	want, wantErr := c.m.fetch(r.Subscriber, r.Max)
	if c.sameError(t, err, wantErr) {
		c.sameBatch(t, r, got, want)
	}
}

// sameBatch compares batches, and records the receipt.
func (c *machine) sameBatch(t *rapid.T, r channel.FetchRequest, got, want channel.Batch) {
	if err := checkBatch(got, r); err != nil {
		t.Fatalf("%v", err)
	}
	same := got.Mark == want.Mark && got.Through == want.Through && got.Clock == want.Clock &&
		got.Expired == want.Expired && len(got.Messages) == len(want.Messages)
	for i := range min(len(got.Messages), len(want.Messages)) {
		a, b := got.Messages[i], want.Messages[i]
		same = same && a.ID == b.ID && a.Clock == b.Clock && bytes.Equal(a.Content, b.Content)
	}
	if !same {
		t.Fatalf("fetch returns\n%+v\nand should return\n%+v", got, want)
	}
	c.sameEpoch(t, got.Epoch)
	c.receipts = append(c.receipts, modelReceipt{c.s.ReceiptFor(r.Subscriber, got), c.m.life})
}

// receipt draws a receipt that was made before, and sometimes changes it.
func (c *machine) receipt(t *rapid.T) modelReceipt {
	if len(c.receipts) == 0 {
		t.Skip("no receipt yet")
	}
	recent := c.receipts[max(0, len(c.receipts)-6):]
	r := rapid.SampledFrom(recent).Draw(t, "receipt")
	if c.m.expired(r.Receipt) {
		r.Receipt = aged(r.Receipt)
	}
	switch rapid.IntRange(0, 9).Draw(t, "change") {
	case 0:
		r.Clock = r.Clock.Add(rapid.Uint64Range(1, 3).Draw(t, "ahead"))
		r.MessageID, r.Write = "nothing", receipt.NewWrite()
	case 1:
		r.MessageID, r.Write = "nothing", receipt.NewWrite()
	case 2:
		r.MessageID, r.Write = "", receipt.Write{}
	case 3:
		r.Epoch, r.life = ulid.ULID{1}, -1
	}
	return r
}

func (c *machine) ack(t *rapid.T) {
	r := c.receipt(t)
	c.sameError(t, c.s.TryAck(r.Receipt), c.m.ack(r.Receipt, r.life))
}

func (c *machine) next(t *rapid.T) {
	r, limit := c.receipt(t), c.limit(t)
	got, err := c.s.TryNext(r.Receipt, limit)
	if !c.sameError(t, err, c.m.ack(r.Receipt, r.life)) {
		if len(got.Messages) > 0 {
			t.Fatalf("a refused next returns %+v", got)
		}
		return
	}
	want, _ := c.m.fetch(r.Subscriber, limit)
	c.sameBatch(t, c.s.Request(r.Subscriber, limit), got, want)
}

// expireMessages expires the oldest messages: lives end in the order in which they began.
func (c *machine) expireMessages(t *rapid.T) {
	alive := c.m.alive()
	if len(alive) == 0 {
		t.Skip("no message is alive")
	}
	withRecords := rapid.Bool().Draw(t, "records too")
	var parts []Part
	for _, at := range alive[:rapid.IntRange(1, len(alive)).Draw(t, "how many")] {
		parts = append(parts, message(at))
		if id := c.m.messages[at].ID; withRecords && c.m.records[id] == at {
			parts = append(parts, record(id))
			delete(c.m.records, id)
		}
		delete(c.m.messages, at)
	}
	c.expire(t, parts...)
}

func (c *machine) expire(t *rapid.T, parts ...Part) {
	if err := c.s.H.Expire(c.s.Ctx(), c.s.Name, parts...); err != nil {
		t.Fatalf("expire: %v", err)
	}
}

func (c *machine) expireRecord(t *rapid.T) {
	id := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "id")
	delete(c.m.records, id)
	c.expire(t, record(id))
}

func (c *machine) expireMark(t *rapid.T) {
	name := c.subscriber(t)
	delete(c.m.marks, name)
	c.expire(t, mark(name))
}

// expireChannel is rarer than the others, so that lives become long.
func (c *machine) expireChannel(t *rapid.T) {
	if rapid.IntRange(0, 4).Draw(t, "end") != 0 {
		t.Skip("not this time")
	}
	c.m.end()
	c.expire(t)
}
