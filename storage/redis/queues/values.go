package queues

import (
	"context"

	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/storage/redis"
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
	var lacks []int
	var missing []string
	for i, value := range values {
		if !current(i, value) {
			lacks, missing = append(lacks, i), append(missing, keys[i])
		}
	}
	found, err := r.Primary(ctx, missing)
	if err != nil {
		return nil, err
	}
	for i, at := range lacks {
		values[at] = found[i]
	}
	return values, nil
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
		if redis.SlotMoving(err) {
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
