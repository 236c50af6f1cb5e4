package queues

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/refusal"
	"github.com/tidemark-dev/tidemark/storage/redis/lua"
)

// valueReader reads from replicas, if there are any, and from the primary. It may be used by many goroutines. Many
// values may be megabytes: for reads from the primary it uses the connection for large replies.
type valueReader struct {
	Conn     *redis.Conn
	Replicas *redis.Replicas // nil: no replicas
}

// Read returns the values of keys: current ones, as decided by the function, from a replica, and others from the
// primary. Missing ones are nil.
func (r valueReader) Read(ctx context.Context, keys []string, current func(i int, value []byte) bool) ([][]byte,
	error) {
	if r.Replicas == nil || len(keys) == 0 {
		return r.Primary(ctx, keys)
	}
	values, ok := r.Replicas.Read(ctx, keys)
	if !ok {
		return r.Primary(ctx, keys)
	}
	var indices []int
	var missing []string
	for i, value := range values {
		if !current(i, value) {
			indices, missing = append(indices, i), append(missing, keys[i])
		}
	}
	found, err := r.Primary(ctx, missing)
	if err != nil {
		return nil, err
	}
	for i, index := range indices {
		values[index] = found[i]
	}
	return values, nil
}

var contentsScript = lua.Must("queues/contents")

// Limits of one call of contents.lua.
const (
	firstKeys  = pageSize
	firstBytes = 256 << 10 // after which it ends
)

// First reads the values of the first keys from the primary, with one command: of as many keys as have firstBytes, and
// of at least one. Missing ones are empty.
func (r valueReader) First(ctx context.Context, keys []string) (values [][]byte, err error) {
	keys = keys[:min(len(keys), firstKeys)]
	err = r.Conn.Retry(ctx, contentsScript.Name(), func(ctx context.Context) error {
		c := r.Conn.At(ctx, r.Conn.Bulk(), keys[0])
		result := contentsScript.Exec(ctx, c, keys, []string{strconv.Itoa(firstBytes)})
		if refusal.Is(result.Error(), refusal.TryAgain) {
			values = make([][]byte, min(len(keys), contentsAtOnce))
			return r.singly(ctx, keys[:len(values)], values)
		}
		reply, err := redis.NewReply(contentsScript.Name(), result)
		if err != nil {
			return err
		}
		d := reply.Decoder()
		list := d.List()
		values = values[:0]
		for list.More() {
			values = append(values, list.Bytes())
		}
		d.Fail(list.Err())
		if len(values) == 0 || len(values) > len(keys) {
			d.Fail(fmt.Errorf("%d values of %d keys", len(values), len(keys)))
		}
		return d.End()
	})
	return values, err
}

// Primary reads values with one command, or one by one while the slot is being moved. Missing ones are nil.
func (r valueReader) Primary(ctx context.Context, keys []string) ([][]byte, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	values := make([][]byte, len(keys))
	err := r.Conn.Retry(ctx, "read tickets", func(ctx context.Context) error {
		c := r.Conn.At(ctx, r.Conn.Bulk(), keys[0])
		found, err := c.Do(ctx, c.B().Mget().Key(keys...).Build()).ToArray()
		if refusal.Is(err, refusal.TryAgain) {
			return r.singly(ctx, keys, values)
		}
		if err != nil {
			return err
		}
		for i, m := range found {
			values[i] = nil
			if !m.IsNil() {
				if values[i], err = m.AsBytes(); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return values, err
}

func (r valueReader) singly(ctx context.Context, keys []string, values [][]byte) error {
	commands := make(rueidis.Commands, len(keys))
	for i, key := range keys {
		commands[i] = r.Conn.Bulk().B().Get().Key(key).Build()
	}
	for i, result := range r.Conn.Bulk().DoMulti(ctx, commands...) {
		value, err := result.AsBytes()
		if err != nil && !rueidis.IsRedisNil(err) {
			return err
		}
		values[i] = value
	}
	return nil
}
