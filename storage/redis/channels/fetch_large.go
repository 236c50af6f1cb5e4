package channels

import (
	"context"
	"errors"

	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/unsent"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/refusal"
)

// A fetch reads at most firstRead bytes with its scripts on the shared connection, however many subscribers it is for;
// a fetch of one subscriber always one message. The rest of a large fetch is read with MGET on the connection for large
// replies, within the budget: Redis copies each message into a script and out again, which takes thirty times as long
// as MGET.
const (
	firstRead = 64 << 10
	minRead   = 1 << 10 // bytes for each of many subscribers, which may exceed firstRead together
	bulkRead  = 1 << 20 // bytes that one MGET should read, by the average of the messages before
	bulkKeys  = 256     // keys that one MGET reads at most
)

// firstOfEach returns how many bytes the script of each of a number of requests reads.
func firstOfEach(requests int) int { return max(minRead, firstRead/max(1, requests)) }

// rest completes a batch that the script ended at firstRead bytes. A batch may have any length, so that errors only end
// it: the budget was exhausted until the deadline, its client leaves too much unread, or Redis refused.
func (s *Store) rest(ctx context.Context, r *channel.FetchRequest, b channel.Batch) channel.Batch {
	if !hasRest(r, &b, firstRead) {
		return b
	}
	ctx, cancel := context.WithTimeout(ctx, s.conn.Timeout())
	defer cancel()
	granted, release, err := s.conn.LargeRead(ctx, r.Channel, r.MaxBytes-bytesOf(b.Messages))
	if err != nil {
		return b
	}
	defer release()
	answer := unsent.From(ctx)
	if answer.Reserve(int64(r.MaxBytes)) != nil { // not before: a read that waits has no bytes yet
		return b
	}
	_, _ = s.readRest(ctx, r, &b, granted) // it has logged the error
	answer.Shrink(int64(bytesOf(b.Messages)))
	return b
}

// restOfEach is rest for the results of several requests, with one share of the budget. It counts for the first of
// their channels by name: fetches from the same channels wait for each other. A batch that has no message yet gets the
// error.
func (s *Store) restOfEach(ctx context.Context, requests []channel.FetchRequest, results []channel.BatchResult) {
	owner, bytes, read, first := "", 0, 0, firstOfEach(len(requests))
	for i := range requests {
		r, n := &requests[i], bytesOf(results[i].Messages)
		read += n
		if results[i].Err != nil || !hasRest(r, &results[i].Batch, first) {
			continue
		}
		if owner == "" || r.Channel < owner {
			owner = r.Channel
		}
		bytes += r.MaxBytes - n
	}
	answer := unsent.From(ctx)
	before := answer.Taken() // by other channels of the same answer
	if owner == "" {
		_ = answer.Reserve(before + int64(read)) // what is read already is returned in any case
		return
	}
	remaining, release, err := s.conn.LargeRead(ctx, owner, bytes)
	if err == nil {
		defer release()
		err = answer.Reserve(before + int64(read+bytes))
	} else {
		err = s.conn.Failure(ctx, "fetch", err)
	}
	for i := range requests {
		r, result := &requests[i], &results[i]
		if result.Err != nil || !hasRest(r, &result.Batch, first) {
			continue
		}
		read -= bytesOf(result.Messages)
		failed := err
		if failed == nil {
			remaining, failed = s.tryRest(ctx, r, &result.Batch, remaining)
		}
		if len(result.Messages) == 0 {
			result.Err = failed
		}
		read += bytesOf(result.Messages)
	}
	answer.Shrink(before + int64(read))
}

// tryRest is readRest, except that it tries again while a batch has no message. While the slot is being moved, it reads
// key by key.
func (s *Store) tryRest(ctx context.Context, r *channel.FetchRequest, b *channel.Batch, remaining int) (int, error) {
	err := s.conn.Retry(ctx, "fetch", func(ctx context.Context) (err error) {
		remaining, err = s.readRest(ctx, r, b, remaining)
		if len(b.Messages) == 0 && refusal.Is(err, refusal.TryAgain) {
			*b, err = s.fetchSingly(ctx, *r)
			remaining -= bytesOf(b.Messages)
		}
		if len(b.Messages) > 0 {
			return nil
		}
		return err
	})
	return remaining, err
}

// hasRest reports whether the script has ended a batch at first bytes and there is room for more.
func hasRest(r *channel.FetchRequest, b *channel.Batch, first int) bool {
	switch n := len(b.Messages); {
	case b.Through == b.Clock, r.Max == 0:
		return false
	case n == 0: // its first message is larger than that
		return true
	default:
		return r.MaxBytes > first && n < r.Max && bytesOf(b.Messages) < r.MaxBytes
	}
}

// readRest reads the rest of a batch in bulk, of at most left bytes unless it has no message yet. It returns how many
// bytes are left then.
func (s *Store) readRest(ctx context.Context, r *channel.FetchRequest, b *channel.Batch, remaining int) (int, error) {
	room := min(remaining, r.MaxBytes-bytesOf(b.Messages))
	rd := bulkReader{store: s, keys: s.keys(r.Channel), max: r.Max, largest: r.Policy.MaxMessageBytes, remaining: room}
	var err error
	for rd.more(*b) && err == nil {
		err = rd.read(ctx, b)
	}
	if err != nil && ctx.Err() == nil {
		s.conn.Logger().DebugContext(ctx, "a large fetch returned a part", "channel", r.Channel, "error", err)
	}
	return remaining - (room - rd.remaining), err
}

func bytesOf(messages []channel.Message) int {
	n := 0
	for _, m := range messages {
		n += len(m.Content)
	}
	return n
}

// bulkReader adds messages to a batch.
type bulkReader struct {
	store     *Store
	keys      Keys
	max       int // messages in the batch
	largest   int // bytes of a message
	remaining int // bytes that may still be added
	full      bool
	missing   []clock.Clock // of messages that the last read didn't find
}

// client returns the client to read the channel's keys with.
func (rd *bulkReader) client(ctx context.Context) rueidis.Client {
	return rd.store.conn.At(ctx, rd.store.conn.Bulk(), rd.keys.Clock())
}

func (rd *bulkReader) more(b channel.Batch) bool {
	return !rd.full && b.Through != b.Clock && len(b.Messages) < rd.max
}

// read adds the next messages. In the same command it reads what shows that Redis still has the history that the script
// has read: the batch's last message, or the clock if there is none yet. If another message has that clock now, or the
// clock is behind, writes were lost in a fail-over, and the batch must end, since one receipt is to cover all of it.
func (rd *bulkReader) read(ctx context.Context, b *channel.Batch) error {
	witness, average := rd.keys.Clock(), rd.largest
	if n := len(b.Messages); n > 0 {
		witness, average = rd.keys.Message(b.Messages[n-1].Clock), bytesOf(b.Messages)/n+1
	}
	n := min(rd.max-len(b.Messages), max(1, min(bulkRead, rd.remaining)/average), bulkKeys)
	keys := append(make([]string, 0, n+1), witness)
	for at := range clock.After(b.Through, b.Clock, n) {
		keys = append(keys, rd.keys.Message(at))
	}
	keys, err := rd.fitting(ctx, keys)
	if err != nil {
		return err
	}
	c := rd.client(ctx)
	found, err := c.Do(ctx, c.B().Mget().Key(keys...).Build()).ToArray()
	if err != nil {
		return err
	}
	if same, err := sameHistory(b, found[0]); err != nil || !same {
		rd.full = true
		return err
	}
	rd.missing = rd.missing[:0]
	for _, value := range found[1:] {
		if rd.full = !rd.add(ctx, b, value); rd.full {
			break
		}
	}
	if len(rd.missing) == 0 {
		return nil
	}
	purged, err := singleReads{store: rd.store, keys: rd.keys}.purged(ctx)
	for _, at := range rd.missing {
		n := purged.between(at.Sub(1), at)
		b.Expired, b.Purged = b.Expired-n, b.Purged+n
	}
	return err
}

// errLost is the cause of the error of a batch without messages if Redis has lost them since the script has run.
var errLost = errors.New("a fail-over has lost messages")

// sameHistory reports whether the value of the key that read has read first shows the history of the batch.
func sameHistory(b *channel.Batch, witness rueidis.RedisMessage) (bool, error) {
	text, err := witness.AsBytes()
	if err != nil {
		return false, err
	}
	n := len(b.Messages)
	if n == 0 {
		at, err := clock.Parse(string(text))
		if err == nil && !clock.Behind(b.Clock, at) {
			err = fault.ErrUnavailable.WithCause(errLost)
		}
		return err == nil, err
	}
	last := &b.Messages[n-1]
	again, err := parseEnvelope(text, last.Clock)
	return err == nil && again.ID == last.ID && again.Write == last.Write, err
}

// fitting returns the keys of as many messages as there is room for, at least of one, after the key that is read again.
// It reads their lengths only if messages of the maximum size would not fit.
func (rd *bulkReader) fitting(ctx context.Context, keys []string) ([]string, error) {
	if len(keys) == 2 || len(keys)*rd.largest <= rd.remaining {
		return keys, nil
	}
	c, bytes := rd.client(ctx), 0
	commands := make(rueidis.Commands, len(keys)-1)
	for i, key := range keys[1:] {
		commands[i] = c.B().Strlen().Key(key).Build()
	}
	for i, result := range c.DoMulti(ctx, commands...) {
		n, err := result.AsInt64()
		if err != nil {
			return nil, err
		}
		if bytes += int(n); bytes > rd.remaining && i > 0 {
			return keys[:i+1], nil
		}
	}
	return keys, nil
}

// add adds one message, and reports whether there was room for it. The first message of a batch always has room. One
// that is gone is skipped.
func (rd *bulkReader) add(ctx context.Context, b *channel.Batch, value rueidis.RedisMessage) bool {
	if value.IsNil() {
		b.Expired, b.Through = b.Expired+1, b.Through.Next()
		rd.missing = append(rd.missing, b.Through)
		return true
	}
	envelope, err := value.AsBytes()
	if err != nil || len(envelope) > rd.remaining && len(b.Messages) > 0 {
		return false
	}
	rd.remaining -= len(envelope)
	rd.store.open(ctx, b, rd.keys, b.Through.Next(), envelope)
	b.Through = b.Through.Next()
	return true
}
