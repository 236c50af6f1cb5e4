package records

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/internal/records/followers"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/lua"
	"github.com/tidemark-dev/tidemark/storage/redis/pubsub"
)

var (
	announceScript = lua.Must("records/copies/announce")
	settleScript   = lua.Must("records/copies/settle")
	ageScript      = lua.Must("records/copies/age")
)

// The statuses of the scripts, besides those that all scripts have.
const statusGone redis.Status = "GONE"

var refusals = redis.Refusals{"FULL": followers.ErrFull}

// Copies keeps the channels. Its methods may be called by many goroutines.
type Copies struct{ conn *redis.Conn }

var _ followers.Store = (*Copies)(nil)

// NewCopies returns the channels in the Redis of a connection.
func NewCopies(conn *redis.Conn) *Copies { return &Copies{conn: conn} }

// pending returns the key.
func (s *Copies) pending() string { return key(s.conn, records.PendingCopiesKind) }

// topic returns the sharded pub/sub channel of announcements, which is in the slot of the key.
func (s *Copies) topic() string { return s.conn.Prefix() + "announced_copies:{all}" }

// Announce implements followers.Store.
func (s *Copies) Announce(ctx context.Context, channel string) error {
	args := []string{channel, strconv.Itoa(followers.MaxPending), s.topic()}
	reply, err := s.conn.Run(ctx, announceScript, []string{s.pending()}, args)
	if err != nil {
		return fmt.Errorf("announce: %w", err)
	}
	return refusals.Check(reply, redis.OK)
}

// Age implements followers.Store.
func (s *Copies) Age(ctx context.Context, channel string) (at followers.Mark, age time.Duration, err error) {
	reply, err := s.conn.Run(ctx, ageScript, []string{s.pending()}, []string{channel})
	switch {
	case err != nil:
		return "", 0, fmt.Errorf("age: %w", err)
	case reply.Status == statusGone:
		return "", 0, nil
	case reply.Status != redis.OK:
		return "", 0, refusals.Error(reply)
	}
	d := reply.Decoder()
	at, age = followers.Mark(d.Text()), time.Duration(d.Int64())*time.Millisecond
	return at, age, d.End()
}

// Settle implements followers.Store.
func (s *Copies) Settle(ctx context.Context, channel string, at followers.Mark) (bool, error) {
	reply, err := s.conn.Run(ctx, settleScript, []string{s.pending()}, []string{channel, string(at)})
	if err != nil {
		return false, fmt.Errorf("settle: %w", err)
	}
	if reply.Status != redis.OK {
		return false, refusals.Error(reply)
	}
	d := reply.Decoder()
	removed := d.Int64() == 1
	return removed, d.End()
}

// pageSize is how many channels are read at a time.
const pageSize = 1000

// Pending implements followers.Store.
func (s *Copies) Pending(ctx context.Context, each func(channel string)) error {
	c, cursor := s.conn.Bulk(), uint64(0)
	for {
		err := s.conn.Retry(ctx, "pending", func(ctx context.Context) error {
			page, err := c.Do(ctx, c.B().Zscan().Key(s.pending()).Cursor(cursor).Count(pageSize).Build()).AsScanEntry()
			if err != nil {
				return err
			}
			for i := 0; i < len(page.Elements); i += 2 { // a channel and its score
				each(page.Elements[i])
			}
			cursor = page.Cursor
			return nil
		})
		if err != nil || cursor == 0 {
			return err
		}
	}
}

// Watch implements followers.Store.
func (s *Copies) Watch(announced func(channel string), lost func()) (stop func()) {
	return s.conn.Listen(s.topic(), pubsub.Listener{Confirmed: lost, Message: announced, Repeats: true})
}
