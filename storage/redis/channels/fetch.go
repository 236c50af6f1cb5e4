package channels

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/refusal"
	"github.com/tidemark-dev/tidemark/storage/redis/lua"
)

var (
	fetchScript = lua.Must("channels/fetch")
	nextScript  = lua.Must("channels/next")
)

// Fetch runs fetch.lua, and reads the rest of a large batch in bulk. While the channel's slot is being moved it reads
// key by key instead. If the subscriber's last fetch found nothing, it looks by Poll first whether there is something,
// which costs Redis a third of the script.
func (s *Store) Fetch(ctx context.Context, r channel.FetchRequest) (b channel.Batch, err error) {
	if r.Tail == nil && r.After == nil && !r.Identify {
		mark := s.keys(r.Channel).Mark(r.Subscriber)
		if !r.Woken && s.ttls.isIdle(mark) {
			if b, done, err := s.fetchNothing(ctx, &r, mark); done || err != nil {
				return b, err
			}
		}
		defer func() {
			if err == nil && b.Mark == b.Clock {
				s.ttls.setIdle(mark)
			} else {
				s.ttls.remove(mark)
			}
		}()
	}
	until := time.Now().Add(s.conn.Timeout())
	call := s.fetchCall(&r, 1, firstRead)
	rep, err := s.conn.RunUnlessMoving(ctx, fetchScript, call.Keys, call.Args)
	if errors.Is(err, redis.ErrMoving) {
		return s.fetchUntil(ctx, until, nil, &r)
	}
	if err != nil {
		return channel.Batch{}, err
	}
	return s.completed(ctx, rep, &r)
}

// fetchNothing returns the batch of a fetch that finds nothing and needn't renew the subscriber. Otherwise done is
// false: the script must run.
func (s *Store) fetchNothing(ctx context.Context, r *channel.FetchRequest, mark string) (
	b channel.Batch, done bool, err error) {
	var found channel.PollResult
	if s.knowsLife(mark, time.Now(), r) {
		found = s.pollOne(ctx, r, mark)
	} else {
		found = s.Poll(ctx, []channel.PollRequest{{FetchRequest: *r}})[0]
	}
	if found.Err != nil {
		return channel.Batch{}, false, fmt.Errorf("look for messages: %w", found.Err)
	}
	if found.Due || found.Mark != found.Clock {
		return channel.Batch{}, false, nil
	}
	at := found.Clock
	return channel.Batch{Epoch: found.Epoch, Mark: at, After: at, Through: at, Clock: at, Messages: []channel.Message{},
		Closed: found.Closed}, true, nil
}

// FetchEach runs fetch.lua for all requests in one round trip. Its scripts read about firstRead bytes in all: larger
// messages, and the rest of large batches, are then read in bulk, for all requests with one share of the budget.
func (s *Store) FetchEach(ctx context.Context, requests []channel.FetchRequest) []channel.BatchResult {
	until := time.Now().Add(s.conn.Timeout())
	calls, results := make([]redis.Call, len(requests)), make([]channel.BatchResult, len(requests))
	for i := range requests {
		calls[i] = s.fetchCall(&requests[i], 0, firstOfEach(len(requests)))
	}
	answers := s.fetchAll(ctx, calls)
	for i := range requests {
		r := &requests[i]
		switch a := answers[i]; {
		case a.Err != nil:
			results[i].Err = a.Err
		case a.Reply.Status == redis.Moving:
			results[i].Batch, results[i].Err = s.fetchUntil(ctx, until, nil, r)
		default:
			results[i].Batch, results[i].Err = s.batch(ctx, a.Reply, s.keys(r.Channel))
		}
	}
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	s.restOfEach(ctx, requests, results)
	return results
}

// anyWrite is the argument of fetch.lua for a position whose message isn't known, in place of its write, which is the one
// of receiptArgs with the index writeOfArgs.
const (
	anyWrite    = "*"
	writeOfArgs = 3
)

// fromMark is the argument of fetch.lua for a subscriber.
const fromMark = "mark"

// fetchAll runs fetch.lua for all calls in one round trip. The status of those whose slot is being moved is
// redis.Moving.
func (s *Store) fetchAll(ctx context.Context, calls []redis.Call) []redis.Result {
	return s.conn.RetryMany(ctx, fetchScript, calls, func(ctx context.Context, calls []redis.Call) []redis.Result {
		answers, _ := s.conn.TryMany(ctx, fetchScript, calls, nil)
		for i, a := range answers {
			if refusal.Is(a.Err, refusal.TryAgain) {
				answers[i] = redis.Result{Reply: redis.Reply{Status: redis.Moving}}
			}
		}
		return answers
	})
}

// fetchCall returns the call of fetch.lua for a request. It reads first bytes at most, but at least as many messages, 0
// or 1, even if they have more.
func (s *Store) fetchCall(r *channel.FetchRequest, least, first int) redis.Call {
	ch := s.keys(r.Channel)
	from := fromMark
	if r.Tail != nil {
		from = fromText(*r.Tail)
	}
	identify := "0"
	if r.Identify {
		identify = "1"
	}
	args := append(appendReadArgs(append(make([]string, 0, 16), ch.MessagePrefix()), r, first), strconv.Itoa(least), from,
		ch.Purged(), identify)
	if r.Peek {
		args[1] = "0"
	}
	if r.After == nil {
		return redis.Call{Keys: ch.ForSubscriber(r.Subscriber), Args: args}
	}
	ahead := "1"
	if r.FromMark {
		ahead = "0"
	}
	after := receiptArgs(r.After, r.Policy)
	if r.Anything {
		after[writeOfArgs] = anyWrite
	}
	return redis.Call{Keys: ackKeys(ch, *r.After), Args: append(append(args, after...), ahead)}
}

// completed decodes the messages that a script read, and reads the rest of a large batch.
func (s *Store) completed(ctx context.Context, rep redis.Reply, r *channel.FetchRequest) (channel.Batch, error) {
	b, err := s.batch(ctx, rep, s.keys(r.Channel))
	if err != nil {
		return channel.Batch{}, err
	}
	return s.rest(ctx, r, b), nil
}

// fetchUntil acknowledges, unless ack is nil, and reads key by key. It stops at a deadline.
func (s *Store) fetchUntil(ctx context.Context, until time.Time, ack *channel.AckRequest, r *channel.FetchRequest) (
	channel.Batch, error) {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	if ack != nil {
		if err := s.Ack(ctx, *ack); err != nil {
			return channel.Batch{}, err
		}
	}
	return s.fetchSingly(ctx, *r)
}

// Next runs next.lua, and reads the rest as Fetch does. While the slot is being moved it acknowledges by itself and
// reads key by key.
func (s *Store) Next(ctx context.Context, a channel.AckRequest, r channel.FetchRequest) (channel.Batch, error) {
	until := time.Now().Add(s.conn.Timeout())
	rep, err := s.conn.RunUnlessMoving(ctx, nextScript, ackKeys(s.keys(r.Channel), a.Receipt), s.nextArgs(a, &r))
	if errors.Is(err, redis.ErrMoving) {
		return s.fetchUntil(ctx, until, &a, &r)
	}
	if err != nil {
		return channel.Batch{}, err
	}
	return s.completed(ctx, rep, &r)
}

func (s *Store) nextArgs(a channel.AckRequest, r *channel.FetchRequest) []string {
	ch := s.keys(r.Channel)
	return append(appendReadArgs(append(receiptArgs(&a.Receipt, r.Policy), ch.MessagePrefix()), r, firstRead), ch.Purged())
}

func appendReadArgs(args []string, r *channel.FetchRequest, first int) []string {
	return append(
		args, ttlMillis(r.Policy), strconv.Itoa(r.Max), strconv.Itoa(min(r.MaxBytes, first)),
		strconv.Itoa(r.Policy.MaxMessages), redis.Milliseconds(r.Wait),
	)
}

// batch decodes the replies of fetch.lua and next.lua about the channel of keys.
func (s *Store) batch(ctx context.Context, rep redis.Reply, keys Keys) (channel.Batch, error) {
	if rep.Status != redis.OK {
		return channel.Batch{}, refusals.Error(rep)
	}
	d := rep.Decoder()
	life := lifeOf(d)
	b := channel.Batch{Epoch: life.Epoch, Closed: life.Closed, Properties: life.Properties, First: life.First,
		Mark: clockOf(d), After: clockOf(d), Clock: clockOf(d), Through: clockOf(d),
		Expired: uint64(d.Int64()), Purged: uint64(d.Int64()), Lost: d.Int64() != 0, Messages: []channel.Message{}}
	if last := d.List(); last.More() {
		b.Last = channel.Message{ID: last.Text(), Clock: b.Through, Write: writeOf(last.Bytes())}
		if at := last.Millis(); !at.IsZero() {
			b.Last.PublishedAt = at.Local()
		}
		d.Fail(last.End())
	}
	d.Each(func(list *redis.Decoder) {
		at, messages := clockOf(list), list.List()
		b.Messages = slices.Grow(b.Messages, messages.Len())
		for ; messages.More(); at = at.Add(1) {
			if messages.Nil() {
				continue
			}
			if text := messages.Bytes(); messages.Err() == nil {
				s.open(ctx, &b, keys, at, text)
			}
		}
		list.Fail(messages.Err())
	})
	if err := d.End(); err != nil {
		return channel.Batch{}, err
	}
	return b, nil
}

// open adds the message of a key to a batch. A damaged one would block its subscribers until it expires: it is logged,
// skipped and counted.
func (s *Store) open(ctx context.Context, b *channel.Batch, keys Keys, at clock.Clock, text []byte) {
	m, err := parseEnvelope(text, at)
	if err != nil {
		s.conn.Logger().ErrorContext(ctx, "cannot read a stored message, skipping it", "key", keys.Message(at),
			"error", err)
		b.Damaged++
		b.Last = channel.Message{Clock: at}
		b.Last.ID, b.Last.Write = identityOf(text)
		return
	}
	b.Messages, b.Last = append(b.Messages, m), m.Identity()
}
