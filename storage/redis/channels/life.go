package channels

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/internal/id"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/refusal"
)

// properties are those of a life, as they follow the epoch in the value of its key: see channel.lua.
type properties struct {
	Type      string   `json:"type,omitempty"`
	TTL       int64    `json:"ttl,omitempty"`
	Ends      int64    `json:"ends,omitempty"`
	First     string   `json:"first,omitempty"`
	Closed    bool     `json:"closed,omitempty"`
	By        []string `json:"by,omitempty"`
	Producers bool     `json:"producers,omitempty"`
}

// parseLife parses the value of an epoch's key.
func parseLife(value string) (life channel.Life, err error) {
	if life.Epoch, err = ParseEpoch(value); err != nil || len(value) == ulid.EncodedSize {
		return life, err
	}
	var p properties
	if err := json.Unmarshal([]byte(value[ulid.EncodedSize:]), &p); err != nil {
		return life, fmt.Errorf("properties of a life: %w", err)
	}
	life.Closed, life.ContentType, life.TTL = p.Closed, p.Type, time.Duration(p.TTL)*time.Millisecond
	if p.Ends > 0 {
		life.Ends = time.UnixMilli(p.Ends)
	}
	if p.First != "" {
		life.First, err = clock.Parse(p.First)
	}
	return life, err
}

// ParseEpoch returns the epoch in the value of its key, which properties may follow.
func ParseEpoch(value string) (ulid.ULID, error) {
	return ulid.ParseStrict(value[:min(len(value), ulid.EncodedSize)])
}

// lifeOf reads the value of an epoch's key.
func lifeOf(d *redis.Decoder) channel.Life {
	text := d.Text()
	if d.Err() != nil {
		return channel.Life{}
	}
	life, err := parseLife(text)
	d.Fail(err)
	return life
}

// Create runs publish.lua with the properties of the life to begin. All attempts have the same epoch: if the channel
// exists with that epoch, an earlier attempt began it, and its answer was lost.
func (s *Store) Create(ctx context.Context, r channel.CreateRequest) (c channel.Created, err error) {
	p := properties{Type: r.ContentType, TTL: r.TTL.Milliseconds()}
	if !r.Ends.IsZero() {
		p.Ends = r.Ends.UnixMilli()
	}
	publish := &channel.PublishRequest{Channel: r.Channel, Drafts: r.Drafts, Policy: r.Policy, Existing: r.Existing,
		Epoch: ulid.MustParse(id.New())}
	rep, err := s.runPublish(ctx, publish, options{Create: &p, Close: r.Close})
	switch {
	case err != nil:
		return c, err
	case rep.Status == statusExists:
		d := rep.Decoder()
		c.Life = lifeOf(d)
		c.Existed = c.Epoch != publish.Epoch
		c.Clock = clockOf(d)
		return c, d.End()
	case !isPublished(rep):
		return c, refusals.Error(rep)
	}
	d := rep.Decoder()
	c.Life = lifeOf(d)
	for d.More() {
		at, result := d.Text(), d.Text()
		if refusalsOfPublish[result] != nil {
			return c, refusalsOfPublish[result]
		}
		var err error
		c.Clock, err = clock.Parse(at)
		d.Fail(err)
	}
	return c, d.End()
}

// runPublish runs publish.lua as a batch, until it has an answer, with replicas if the policy requires some.
func (s *Store) runPublish(ctx context.Context, r *channel.PublishRequest, o options) (rep redis.Reply, err error) {
	err = s.conn.Retry(ctx, publishScript.Name(), func(ctx context.Context) (err error) {
		messages := messagesOf(r)
		if r.Policy.Replicas > 0 {
			rep, err = s.tryReplicated(ctx, r, messages, &o)
			return err
		}
		keys, args := s.publishCall(r, messages, false, &o)
		rep, err = s.conn.Try(ctx, publishScript, keys, args)
		return err
	})
	return rep, err
}

// CloseChannel runs publish.lua without messages.
func (s *Store) CloseChannel(ctx context.Context, r channel.CloseRequest) (life channel.Life, err error) {
	publish := &channel.PublishRequest{Channel: r.Channel, Policy: r.Policy, Producer: r.Producer, Existing: true,
		Close: true}
	rep, err := s.runPublish(ctx, publish, optionsOf(publish))
	if err != nil {
		return life, err
	}
	if !isPublished(rep) {
		return life, refusals.Error(rep)
	}
	d := rep.Decoder()
	life = lifeOf(d)
	published, err := decodePublished(reply{Reply: rep, of: 1}, make([]channel.Draft, 1), r.Producer)
	if err != nil {
		return life, err
	}
	life.Clock, life.Closed = published[0].Clock, true
	return life, nil
}

// Life reads the clock and the value of the epoch's key. While the slot is being moved, it reads key by key.
func (s *Store) Life(ctx context.Context, name string) (life channel.Life, err error) {
	keys := s.positionKeys(name)
	err = s.conn.Retry(ctx, "life of a channel", func(ctx context.Context) error {
		c := s.conn.At(ctx, s.conn.Client(), keys[0])
		values, err := c.Do(ctx, c.B().Mget().Key(keys...).Build()).ToArray()
		switch {
		case refusal.Is(err, refusal.TryAgain):
			life, err = singleReads{store: s, keys: s.keys(name)}.channelLife(ctx)
			return err
		case err != nil:
			return err
		}
		life, err = lifeIn(values)
		return err
	})
	return life, err
}

// lifeIn decodes the values of a channel's clock and epoch. One that the predecessor of this service made has the zero
// epoch.
func lifeIn(values []rueidis.RedisMessage) (life channel.Life, err error) {
	at, err := values[0].ToString()
	if err != nil {
		return life, channel.ErrNoChannel
	}
	if text, err := values[1].ToString(); err == nil {
		if life, err = parseLife(text); err != nil {
			return life, damaged("epoch", err)
		}
	}
	if life.Clock, err = clock.Parse(at); err != nil {
		return life, damaged("clock", err)
	}
	return life, nil
}

// options is the argument of publish.lua for what few publishes have.
type options struct {
	Close     bool          `json:"close,omitempty"`
	Order     string        `json:"order,omitempty"`
	Producers []producerArg `json:"producers,omitempty"`
	Create    *properties   `json:"create,omitempty"`
}

// producerArg is a producer in the options; the zero value is none.
type producerArg struct {
	ID       string `json:"id,omitempty"`
	Epoch    int64  `json:"epoch"`
	Sequence int64  `json:"sequence"`
}

func producerOf(p *channel.Producer) producerArg {
	if p == nil {
		return producerArg{}
	}
	return producerArg{ID: p.ID, Epoch: p.Epoch, Sequence: p.Sequence}
}

// optionsOf returns the options of a publish.
func optionsOf(r *channel.PublishRequest) options {
	o := options{Close: r.Close, Order: r.Order}
	if r.Producer != nil {
		o.Producers = []producerArg{producerOf(r.Producer)}
	}
	return o
}

// text returns the argument; "" if there are no options.
func (o *options) text() string {
	if !o.Close && o.Order == "" && o.Producers == nil && o.Create == nil {
		return ""
	}
	text, err := json.Marshal(o)
	if err != nil {
		panic(fmt.Sprintf("options of a publish: %v", err)) // texts and numbers only
	}
	return string(text)
}

// refusalsOfPublish are the results of publish.lua for messages that it refused.
var refusalsOfPublish = map[string]error{
	"CLOSED": channel.ErrClosed, "TYPE": channel.ErrContentType, "ORDER": channel.ErrOrder,
	"GAP": channel.ErrProducerGap, "FENCED": channel.ErrFenced, "START": channel.ErrProducerStart,
	"MANY": channel.ErrManyProducers,
}

// refused returns the error for a result that is no number.
func refused(life *channel.Life, at int64, why string) error {
	err := refusalsOfPublish[why]
	if err == nil {
		return damaged("publish.lua", fmt.Errorf("result %q", why))
	}
	e := &channel.RefusedError{Err: err, Position: life.Position, First: life.First}
	switch why {
	case "FENCED", "START":
		e.Epoch = at
	case "GAP":
		e.Expected = at
	case "MANY":
	default:
		e.Position.Clock = clock.Clock(at)
	}
	return e
}
