package channels

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/refusal"
)

// Poll acknowledges with ack.lua, reads clocks, marks and epochs with MGET, and reads the TTLs of marks that ttlCache
// doesn't cover, all in one pipeline to each node. Outside of a Cluster one MGET reads all channels.
func (s *Store) Poll(ctx context.Context, requests []channel.PollRequest) []channel.PollResult {
	p := polling{store: s, requests: requests, results: make([]channel.PollResult, len(requests))}
	p.makeKeys()
	errs := s.conn.RetryEach(ctx, "poll", len(requests), p.try)
	for i, err := range errs {
		if p.results[i].Err = err; err != nil {
			s.ttls.remove(p.mark(i))
		}
	}
	return p.results
}

// polling is one call of Poll.
type polling struct {
	store    *Store
	requests []channel.PollRequest
	results  []channel.PollResult
	reads    mget // of positions
}

// makeKeys makes the keys of all positions: clock, mark and epoch.
func (p *polling) makeKeys() {
	prefix, size := p.store.conn.Prefix(), 0
	p.reads = mget{client: p.store.conn.Client(), each: 3}
	for i := range p.requests {
		r := &p.requests[i]
		size += 4*(len(prefix)+len(beforeChannel)+len(r.Channel)+len(afterChannel)) +
			len(clockSuffix+markInfix+epochSuffix) + len(r.Subscriber)
	}
	var space keySpace
	space.text.Grow(size)
	p.reads.keys = make([]string, 0, p.reads.each*len(p.requests))
	for i := range p.requests {
		r := &p.requests[i]
		base := space.join(prefix, beforeChannel, r.Channel, afterChannel)
		p.reads.keys = append(p.reads.keys, space.join(base, clockSuffix), space.join(base, markInfix, r.Subscriber),
			space.join(base, epochSuffix))
	}
}

func (p *polling) mark(i int) string { return p.reads.of(i)[1] }

// try makes one attempt at the requests that are left.
func (p *polling) try(ctx context.Context, pending []int) []error {
	commands, now := p.reads.commands(pending), time.Now()
	reads := len(commands)
	var acks, marks, lasts []int
	var calls []redis.Call
	for n, i := range pending {
		r := &p.requests[i]
		if r.Receipt != nil {
			acks, calls = append(acks, n), append(calls, p.ackCall(r))
		} else if !p.store.knowsLife(p.mark(i), now, &r.FetchRequest) {
			marks, commands = append(marks, i), append(commands, p.reads.client.B().Pttl().Key(p.mark(i)).Build())
		}
	}
	for _, i := range pending {
		if last := p.requests[i].Last; last != nil {
			key := p.store.keys(p.requests[i].Channel).Message(last.Clock)
			lasts = append(lasts, i)
			commands = append(commands, p.reads.client.B().Getrange().Key(key).Start(0).End(headBytes-1).Build())
		}
	}
	acked, read := p.store.conn.TryMany(ctx, ackScript, calls, commands)
	errs := p.reads.decode(pending, read[:reads], p.decode(ctx))
	for n, i := range marks {
		p.decodeTTL(i, now, read[reads+n])
	}
	for n, i := range lasts {
		p.compare(i, read[reads+len(marks)+n])
	}
	for a, n := range acks {
		if err := p.acked(pending[n], now, acked[a]); err != nil {
			errs[n] = err
		}
	}
	return errs
}

// decode decodes the position of one channel. If its slot is being moved, it reads key by key.
func (p *polling) decode(ctx context.Context) func(int, []rueidis.RedisMessage, error) error {
	return func(i int, values []rueidis.RedisMessage, err error) error {
		if err == nil {
			return decodePosition(values, p.requests[i].Channel, &p.results[i])
		}
		if refusal.Is(err, refusal.TryAgain) {
			return p.store.positionSingly(ctx, &p.requests[i].FetchRequest, &p.results[i])
		}
		return err
	}
}

// positionSingly reads a position key by key.
func (s *Store) positionSingly(ctx context.Context, r *channel.FetchRequest, to *channel.PollResult) error {
	b, err := singleReads{store: s, keys: s.keys(r.Channel)}.position(ctx, r.Subscriber)
	to.Position, to.Mark = channel.Position{Epoch: b.Epoch, Clock: b.Clock, Closed: b.Closed}, b.Mark
	return err
}

// pollOne is Poll for one request without receipts, if ttlCache covers its mark.
func (s *Store) pollOne(ctx context.Context, r *channel.FetchRequest, mark string) (result channel.PollResult) {
	ch := s.keys(r.Channel).together(2, 0)
	keys := [...]string{ch.Clock(), mark, ch.Epoch()}
	client := s.conn.Client()
	result.Err = s.conn.Retry(ctx, "poll", func(ctx context.Context) error {
		read := client.B().Mget().Key(keys[:]...).Build()
		values, err := s.conn.At(ctx, client, mark).Do(ctx, read).ToArray()
		switch {
		case refusal.Is(err, refusal.TryAgain):
			return s.positionSingly(ctx, r, &result)
		case err != nil:
			return err
		case len(values) != len(keys):
			return fmt.Errorf("%w: MGET returned %d values", redis.ErrReply, len(values))
		}
		return decodePosition(values, r.Channel, &result)
	})
	if result.Err != nil {
		s.ttls.remove(mark)
	}
	return result
}

// decodePosition decodes clock, mark and epoch of a channel.
func decodePosition(values []rueidis.RedisMessage, name string, r *channel.PollResult) error {
	if values[0].IsNil() || values[1].IsNil() {
		return channel.ErrNoSubscriber
	}
	for n, to := range []*clock.Clock{&r.Clock, &r.Mark} {
		text, err := values[n].ToString()
		if err == nil {
			*to, err = clock.Parse(text)
		}
		if err != nil {
			return damaged("position of "+name, err)
		}
	}
	if !clock.Behind(r.Mark, r.Clock) {
		return channel.ErrNoSubscriber
	}
	if !values[2].IsNil() {
		text, err := values[2].ToString()
		var life channel.Life
		if err == nil {
			life, err = parseLife(text)
		}
		if err != nil {
			return damaged("epoch of "+name, err)
		}
		r.Epoch, r.Closed = life.Epoch, life.Closed
		r.Due = r.Due || life.TTL > 0
	}
	return nil
}

// decodeTTL decodes the TTL of a mark. If it can't be read now, as while its slot is being moved, the next poll reads
// it.
func (p *polling) decodeTTL(i int, asked time.Time, read rueidis.RedisResult) {
	ms, err := read.AsInt64()
	if err != nil || ms == -1 { // the predecessor's marks have no TTL
		return
	}
	remaining := time.Duration(ms) * time.Millisecond
	p.store.ttls.set(p.mark(i), asked, remaining)
	p.results[i].Due = p.results[i].Due || remaining < leastLife(&p.requests[i].FetchRequest)
}

// compare compares a receipt that the client had before with the channel's history. A message that is gone, or can't be
// read now, is taken for the receipt's.
func (p *polling) compare(i int, read rueidis.RedisResult) {
	r, last := &p.results[i], p.requests[i].Last
	head, err := read.AsBytes()
	isOfMark := last.MessageID == "" && last.Write.IsZero() && clock.Behind(last.Clock, r.Mark)
	r.Lost = last.Epoch != r.Epoch || !clock.Behind(last.Clock, r.Clock) ||
		err == nil && len(head) > 0 && !isOfMark && !isOf(head, last)
}

// maxTTLAge is how long a TTL that was read is relied on, and a tenth of the channel's TTL at most: Redis may go back to
// an earlier state, in which marks have less.
const maxTTLAge = time.Minute

// leastLife returns the TTL that a mark must still have after a poll that found nothing: see "Lives" in
// docs/redis/channels.md.
func leastLife(r *channel.FetchRequest) time.Duration {
	if r.Wait > 0 {
		return r.Policy.TTL + r.Wait
	}
	return r.Policy.TTL / 10 * 9
}

// knowsLife reports whether a mark is known to live for as long as leastLife requires.
func (s *Store) knowsLife(mark string, now time.Time, r *channel.FetchRequest) bool {
	return s.ttls.covers(mark, now, leastLife(r), min(r.Policy.TTL/10, maxTTLAge))
}

// ackCall returns the call of ack.lua. Its TTL covers the wait, as leastLife requires.
func (p *polling) ackCall(r *channel.PollRequest) redis.Call {
	life := redis.Milliseconds(r.Policy.TTL + r.Wait)
	return redis.Call{Keys: ackKeys(p.store.keys(r.Channel), *r.Receipt),
		Args: append(receiptArgs(r.Receipt, r.Policy), life, strconv.Itoa(r.Policy.MaxMessages))}
}

// acked decodes an acknowledgement. A repeat is stale, and succeeds. It moves the mark that was read, if the read ran
// first because Redis didn't know the script.
func (p *polling) acked(i int, asked time.Time, answer redis.Result) error {
	if answer.Err != nil {
		return answer.Err
	}
	if err := refusals.Check(answer.Reply, redis.OK, statusStale); err != nil {
		return err
	}
	request, r := &p.requests[i], &p.results[i]
	p.store.ttls.set(p.mark(i), asked, request.Policy.TTL+request.Wait)
	if clock.Between(r.Mark, request.Receipt.Clock, r.Clock) {
		r.Mark = request.Receipt.Clock
	}
	return nil
}
