package channels

import (
	"context"
	"errors"
	"sort"
	"strings"

	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/refusal"
)

// singleChunk limits how many messages one fetch reads key by key.
const singleChunk = 16

// singleReads reads the keys of a channel whose slot is being moved, one at a time: Redis answers each from the node
// that has it. It renews no TTL; the next fetch does. The clock is read before the messages, so that every message up
// to it was stored before.
type singleReads struct {
	store *Store
	keys  Keys
}

func (s *Store) fetchSingly(ctx context.Context, r channel.FetchRequest) (channel.Batch, error) {
	var b channel.Batch
	err := s.conn.Retry(ctx, "fetch singly", func(ctx context.Context) error {
		var err error
		b, err = singleReads{store: s, keys: s.keys(r.Channel)}.fetch(ctx, r)
		return err
	})
	return b, err
}

func (f singleReads) fetch(ctx context.Context, r channel.FetchRequest) (channel.Batch, error) {
	b, err := f.read(ctx, r)
	if err == nil && r.Identify && len(b.Messages) == 0 {
		err = f.identify(ctx, &b)
	}
	if err != nil || b.Expired == 0 {
		return b, err
	}
	purged, err := f.purged(ctx)
	b.Purged = min(b.Expired, purged.between(b.After, b.Through))
	b.Expired -= b.Purged
	return b, err
}

// identify sets the last message of a batch without messages.
func (f singleReads) identify(ctx context.Context, b *channel.Batch) error {
	envelope, err := f.get(ctx, f.keys.Message(b.Through))
	if err != nil || envelope == nil {
		return err
	}
	m, err := parseEnvelope(envelope, b.Through)
	if err != nil {
		m = channel.Message{Clock: b.Through}
		m.ID, m.Write = identityOf(envelope)
	}
	b.Last = m.Identity()
	return nil
}

func (f singleReads) read(ctx context.Context, r channel.FetchRequest) (channel.Batch, error) {
	b, err := f.beginning(ctx, &r)
	if err != nil {
		return b, err
	}
	at := b.After
	if unread := clock.Distance(at, b.Clock); r.Policy.MaxMessages > 0 && unread > uint64(r.Policy.MaxMessages) {
		at = b.Clock.Sub(uint64(r.Policy.MaxMessages))
		b.Expired, b.Through = clock.Distance(b.After, at), at
	}
	if at, err = f.skipGone(ctx, &b, at); err != nil {
		return b, err
	}
	size := 0
	b.Messages = []channel.Message{}
	for c := range clock.After(at, b.Clock, min(r.Max, singleChunk)) {
		envelope, err := f.get(ctx, f.keys.Message(c))
		if err != nil {
			return b, err
		}
		if size += len(envelope); len(b.Messages) > 0 && size > r.MaxBytes {
			break
		}
		if envelope == nil {
			b.Expired++
		} else {
			f.store.open(ctx, &b, f.keys, c, envelope)
		}
		b.Through = c
	}
	return b, nil
}

// beginning reads where a fetch begins to read, as fetch.lua does.
func (f singleReads) beginning(ctx context.Context, r *channel.FetchRequest) (b channel.Batch, err error) {
	if r.Tail != nil {
		var life channel.Life
		life, err = f.channelLife(ctx)
		setLife(&b, &life)
		b.Clock = life.Clock
	} else {
		b, err = f.position(ctx, r.Subscriber)
	}
	if err != nil {
		return b, err
	}
	if r.After != nil {
		known, err := f.known(ctx, &b, r)
		if err != nil {
			return b, err
		}
		b.Lost = !known
	}
	switch {
	case r.After != nil && !r.FromMark && !b.Lost && (r.Tail != nil || clock.Between(b.Mark, r.After.Clock, b.Clock)):
		b.After = r.After.Clock
	case r.Tail != nil:
		b.After, err = f.tail(ctx, &b, r)
	}
	if b.Through = b.After; r.Tail != nil {
		b.Mark = b.After
	}
	return b, err
}

// tail returns where a tail begins that has no position in the channel's history.
func (f singleReads) tail(ctx context.Context, b *channel.Batch, r *channel.FetchRequest) (clock.Clock, error) {
	from := *r.Tail
	if r.After != nil && r.After.Epoch != b.Epoch {
		from.Start = channel.StartEarliest
	}
	switch from.Start {
	case channel.StartEarliest:
		unread := uint64(clock.Max)
		if r.Policy.MaxMessages > 0 {
			unread = uint64(r.Policy.MaxMessages)
		}
		at := b.Clock.Sub(unread)
		expired, err := f.expired(ctx, at, unread)
		return at.Add(expired), err
	case channel.StartAt:
		if clock.Behind(from.Clock, b.Clock) {
			return from.Clock, nil
		}
		if r.After == nil {
			return 0, channel.ErrClockAhead
		}
	case channel.StartLatest:
	}
	return b.Clock, nil
}

// position reads the channel's clock and the subscriber's mark, and sets Through to the mark. The epoch is read first
// and the clock last: if the channel begins another life meanwhile, the receipt of the batch is of the earlier one.
func (f singleReads) position(ctx context.Context, subscriber string) (channel.Batch, error) {
	var b channel.Batch
	var err error
	life, err := f.life(ctx)
	if err != nil {
		return b, err
	}
	setLife(&b, &life)
	mark, marked, err := f.clockAt(ctx, f.keys.Mark(subscriber))
	if err != nil {
		return b, err
	}
	last, exists, err := f.clockAt(ctx, f.keys.Clock())
	if err != nil {
		return b, err
	}
	if !marked || !exists || !clock.Behind(mark, last) {
		return b, channel.ErrNoSubscriber
	}
	b.Mark, b.After, b.Clock, b.Through = mark, mark, last, mark
	return b, nil
}

// known reports whether the position of a request is of the channel's history, as ack.known of the scripts does.
func (f singleReads) known(ctx context.Context, b *channel.Batch, r *channel.FetchRequest) (bool, error) {
	after := r.After
	if after.Epoch != b.Epoch || !clock.Behind(after.Clock, b.Clock) {
		return false, nil
	}
	if r.Anything || after.MessageID == "" && after.Write.IsZero() && r.Tail == nil && clock.Behind(after.Clock, b.Mark) {
		return true, nil
	}
	envelope, err := f.get(ctx, f.keys.Message(after.Clock))
	switch {
	case err != nil:
		return false, err
	case envelope == nil:
		return f.wasThere(ctx, b, r)
	}
	return isOf(envelope, after), nil
}

// wasThere reports whether the message of a position, which is gone, can have been there: see ack.matches.
func (f singleReads) wasThere(ctx context.Context, b *channel.Batch, r *channel.FetchRequest) (bool, error) {
	after, keeps := r.After, uint64(r.Policy.MaxMessages)
	if after.MessageID == "" {
		return true, nil
	}
	record := f.keys.MessageID(after.MessageID)
	timed := !after.PublishedAt.IsZero() && b.TTL == 0 && b.Ends.IsZero() // others end at another time
	ends := after.PublishedAt.Add(r.Policy.TTL).UnixMilli()
	recorded, exists, err := f.clockAt(ctx, record)
	switch {
	case err != nil:
		return false, err
	case exists && (recorded != after.Clock || !timed):
		return recorded == after.Clock, nil
	case exists:
		at, _, err := f.expiry(ctx, record)
		return at == ends, err
	case timed:
		_, now, err := f.expiry(ctx, f.keys.Clock())
		return now >= ends, err
	default:
		return keeps == 0 || clock.Distance(after.Clock, b.Clock) < keeps, nil
	}
}

// expiry returns when a key expires, and the time of the Redis that has it, both in milliseconds. It reads no TIME:
// that command has no key, so that in a Cluster any node could answer it.
func (f singleReads) expiry(ctx context.Context, key string) (at, now int64, err error) {
	c := f.store.conn.Client()
	results := c.DoMulti(ctx, c.B().Pexpiretime().Key(key).Build(), c.B().Pttl().Key(key).Build())
	at, err = results[0].AsInt64()
	ttl, failed := results[1].AsInt64()
	return at, at - ttl, errors.Join(err, failed)
}

// setLife sets what a batch has of the channel's life, but for its clock.
func setLife(b *channel.Batch, life *channel.Life) {
	b.Epoch, b.Closed, b.Properties, b.First = life.Epoch, life.Closed, life.Properties, life.First
}

// channelLife reads the channel's life, the epoch first. Errors: ErrNoChannel.
func (f singleReads) channelLife(ctx context.Context) (channel.Life, error) {
	at, err := f.life(ctx)
	if err != nil {
		return at, err
	}
	exists := false
	if at.Clock, exists, err = f.clockAt(ctx, f.keys.Clock()); err == nil && !exists {
		err = channel.ErrNoChannel
	}
	return at, err
}

// life reads the channel's life without its clock. The epoch is zero for a channel that the predecessor of this service
// created.
func (f singleReads) life(ctx context.Context) (channel.Life, error) {
	text, err := f.get(ctx, f.keys.Epoch())
	if err != nil || text == nil {
		return channel.Life{}, err
	}
	life, err := parseLife(string(text))
	if err != nil {
		return life, damaged("epoch", err)
	}
	return life, nil
}

// clockAt reads a clock; ok is false if the key does not exist.
func (f singleReads) clockAt(ctx context.Context, key string) (c clock.Clock, ok bool, err error) {
	text, err := f.get(ctx, key)
	if err != nil || text == nil {
		return 0, false, err
	}
	at, _, _ := strings.Cut(string(text), " ") // in a dedup record, an epoch can follow
	if c, err = clock.Parse(at); err != nil {
		return 0, false, damaged(key, err)
	}
	return c, true, nil
}

// skipGone skips the expired messages after at, by binary search, and counts them.
func (f singleReads) skipGone(ctx context.Context, b *channel.Batch, at clock.Clock) (clock.Clock, error) {
	expired, err := f.expired(ctx, at, clock.Distance(at, b.Clock))
	if expired > 0 {
		b.Expired += expired
		b.Through = at.Add(expired)
	}
	return at.Add(expired), err
}

// expired returns how many of the messages after at have expired, of the next unread ones.
func (f singleReads) expired(ctx context.Context, at clock.Clock, unread uint64) (uint64, error) {
	var failed error
	alive := func(i int) bool {
		n, err := f.store.conn.Client().Do(ctx,
			f.store.conn.Client().B().Exists().Key(f.keys.Message(at.Add(uint64(i)+1))).Build()).AsInt64()
		if err != nil && failed == nil {
			failed = err
		}
		return n > 0
	}
	if unread == 0 || alive(0) {
		return 0, failed
	}
	return uint64(sort.Search(int(unread), alive)), failed
}

// get returns a key's value, or nil if the key does not exist, or has a value of another type, as in the scripts.
func (f singleReads) get(ctx context.Context, key string) ([]byte, error) {
	value, err := f.store.conn.Client().Do(ctx, f.store.conn.Client().B().Get().Key(key).Build()).AsBytes()
	if rueidis.IsRedisNil(err) || refusal.Is(err, refusal.WrongType) {
		return nil, nil
	}
	return value, err
}
