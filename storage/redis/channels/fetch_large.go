package channels

import (
	"context"

	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/clock"
)

// A fetch reads at most firstRead bytes, but always one message, with its script on the shared connection. The rest of
// a large fetch is read with MGET on the connection for large replies, within the budget: Redis copies each message
// into a script and out again, which takes thirty times as long as MGET.
const (
	firstRead = 64 << 10
	bulkRead  = 1 << 20 // bytes that one MGET should read, by the average of the messages before
	bulkKeys  = 256     // keys that one MGET reads at most
)

// rest completes a batch that the script ended at firstRead bytes. A batch may have any length, so that errors only end
// it: the budget was exhausted until the deadline, or Redis refused.
func (s *Store) rest(ctx context.Context, r *channel.FetchRequest, b channel.Batch) channel.Batch {
	left := r.MaxBytes - bytesOf(b.Messages)
	if r.MaxBytes <= firstRead || b.Through == b.Clock || len(b.Messages) == 0 || len(b.Messages) >= r.Max ||
		left <= 0 {
		return b
	}
	ctx, cancel := context.WithTimeout(ctx, s.conn.Timeout())
	defer cancel()
	granted, release, err := s.conn.LargeRead(ctx, r.Channel, left)
	if err != nil {
		return b
	}
	defer release()
	rd := bulkReader{store: s, keys: s.keys(r.Channel), max: r.Max, largest: r.Policy.MaxMessageBytes, left: granted}
	for rd.more(b) && err == nil {
		err = rd.read(ctx, &b)
	}
	if err != nil && ctx.Err() == nil {
		s.conn.Logger().DebugContext(ctx, "a large fetch returned a part", "channel", r.Channel, "error", err)
	}
	return b
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
	store   *Store
	keys    Keys
	max     int // messages in the batch
	largest int // bytes of a message
	left    int // bytes that may still be added
	full    bool
}

func (rd *bulkReader) more(b channel.Batch) bool {
	return !rd.full && b.Through != b.Clock && len(b.Messages) < rd.max
}

// read adds the next messages. It reads the batch's last message again in the same command: if another message has its
// clock now, writes were lost in a fail-over, and the batch must end, since one receipt is to cover all of it.
func (rd *bulkReader) read(ctx context.Context, b *channel.Batch) error {
	last := b.Messages[len(b.Messages)-1]
	average := bytesOf(b.Messages)/len(b.Messages) + 1
	n := min(rd.max-len(b.Messages), max(1, min(bulkRead, rd.left)/average), bulkKeys)
	keys := append(make([]string, 0, n+1), rd.keys.Message(last.Clock))
	for at := range clock.After(b.Through, b.Clock, n) {
		keys = append(keys, rd.keys.Message(at))
	}
	keys, err := rd.fitting(ctx, keys)
	if err != nil {
		return err
	}
	c := rd.store.conn.Bulk()
	found, err := c.Do(ctx, c.B().Mget().Key(keys...).Build()).ToArray()
	if err != nil {
		return err
	}
	if again, err := reread(found[0], last.Clock); err != nil || again.ID != last.ID {
		rd.full = true
		return err
	}
	for _, value := range found[1:] {
		if rd.full = !rd.add(ctx, b, value); rd.full {
			break
		}
	}
	return nil
}

// fitting returns the keys of as many messages as there is room for, at least of one, after the key that is read again.
// It reads their lengths only if messages of the maximum size would not fit.
func (rd *bulkReader) fitting(ctx context.Context, keys []string) ([]string, error) {
	if len(keys)*rd.largest <= rd.left {
		return keys, nil
	}
	c, bytes := rd.store.conn.Bulk(), 0
	commands := make(rueidis.Commands, len(keys)-1)
	for i, key := range keys[1:] {
		commands[i] = c.B().Strlen().Key(key).Build()
	}
	for i, result := range c.DoMulti(ctx, commands...) {
		n, err := result.AsInt64()
		if err != nil {
			return nil, err
		}
		if bytes += int(n); bytes > rd.left && i > 0 {
			return keys[:i+1], nil
		}
	}
	return keys, nil
}

// add adds one message, and reports whether there was room for it. A message that has expired is skipped.
func (rd *bulkReader) add(ctx context.Context, b *channel.Batch, value rueidis.RedisMessage) bool {
	if value.IsNil() {
		b.Expired, b.Through = b.Expired+1, b.Through.Next()
		return true
	}
	envelope, err := value.AsBytes()
	if err != nil || len(envelope) > rd.left {
		return false
	}
	rd.left -= len(envelope)
	rd.store.open(ctx, b, b.Through.Next(), envelope)
	b.Through = b.Through.Next()
	return true
}

func reread(value rueidis.RedisMessage, at clock.Clock) (channel.Message, error) {
	text, err := value.AsBytes()
	if err != nil {
		return channel.Message{}, err
	}
	return parseEnvelope(text, at)
}
