package cache

import (
	"context"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/records"
	"github.com/tidemark-dev/tidemark/records/cache"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/lua"
	"github.com/tidemark-dev/tidemark/storage/redis/pubsub"
)

// The scripts of write-behind.
var (
	writeScript   = lua.Must("records/cache_write")
	writtenScript = lua.Must("records/cache_written")
)

// backlog holds the limits of writeScript.
var backlog = redis.Refusals{"FULL": cache.ErrBacklogFull}

// Queue keeps the values that aren't in the source of truth yet. Its methods may be called by many goroutines.
type Queue struct {
	conn *redis.Conn
}

var _ cache.Queue = (*Queue)(nil)

// NewQueue returns the queues in the Redis of a connection, which must not evict.
func NewQueue(conn *redis.Conn) *Queue { return &Queue{conn: conn} }

// keys returns the keys of the unwritten values of a kind, in one slot, and the topic for notifications.
func (q *Queue) keys(kind *records.Kind) (keys []string, topic string) {
	writes := q.conn.Prefix() + records.CacheWrites.Key(kind.Name)
	return []string{writes, q.conn.Prefix() + records.CachePending.Key(kind.Name)}, writes
}

// Add implements cache.Queue.
func (q *Queue) Add(ctx context.Context, v cache.Value) error {
	keys, topic := q.keys(v.Key.Kind)
	reply, err := q.conn.Run(ctx, writeScript, keys, []string{
		v.Token, v.Key.ID, string(v.Bytes), strconv.Itoa(cache.MaxBacklog), strconv.Itoa(cache.MaxBacklogBytes), topic,
	})
	if err == nil {
		err = backlog.Check(reply, redis.OK)
	}
	return err
}

// Pending implements cache.Queue. If the value is written between the two commands, it is found in the source of truth.
func (q *Queue) Pending(ctx context.Context, key cache.Key) (data []byte, found bool, err error) {
	keys, _ := q.keys(key.Kind)
	err = q.conn.Retry(ctx, "pending", func(ctx context.Context) error {
		client := q.conn.Client()
		at, err := client.Do(ctx, client.B().Hget().Key(keys[1]).Field(key.ID).Build()).ToString()
		if err != nil {
			found = false
			return nilError(err)
		}
		entries, err := client.Do(ctx, client.B().Xrange().Key(keys[0]).Start(at).End(at).Build()).AsXRange()
		if found = err == nil && len(entries) == 1; found {
			data = []byte(entries[0].FieldValues["data"])
		}
		return err
	})
	return data, found, err
}

// Read implements cache.Queue.
func (q *Queue) Read(ctx context.Context, kind *records.Kind, after string, n int) (found []cache.Queued, err error) {
	keys, _ := q.keys(kind)
	from := "-"
	if after != "" {
		from = "(" + after
	}
	err = q.conn.Retry(ctx, "read writes", func(ctx context.Context) error {
		client := q.conn.Bulk()
		entries, err := client.Do(ctx, client.B().Xrange().Key(keys[0]).Start(from).End("+").Count(
			int64(n)).Build()).AsXRange()
		found = nil
		for _, e := range entries {
			found = append(found, cache.Queued{Position: e.ID, ID: e.FieldValues["id"],
				Bytes: []byte(e.FieldValues["data"])})
		}
		return err
	})
	return found, err
}

// Done implements cache.Queue.
func (q *Queue) Done(ctx context.Context, kind *records.Kind, written []cache.Queued) error {
	keys, topic := q.keys(kind)
	args := []string{topic}
	for _, w := range written {
		args = append(args, w.Position)
	}
	reply, err := q.conn.Run(ctx, writtenScript, keys, args)
	if err == nil {
		err = refusals.Check(reply, redis.OK)
	}
	return err
}

// Watch implements cache.Queue.
func (q *Queue) Watch(kind *records.Kind, changed func()) (stop func()) {
	_, topic := q.keys(kind)
	return q.conn.Listen(topic, pubsub.Listener{
		Confirmed: changed, Message: func(string) { changed() }, Repeats: true,
	})
}

// nilError returns err, or nil if err is Redis's nil reply.
func nilError(err error) error {
	if rueidis.IsRedisNil(err) {
		return nil
	}
	return err
}
