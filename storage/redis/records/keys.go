package records

import (
	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/storage/redis"
)

// key returns a key of a kind in a Redis, in the form of its connection.
func key(conn *redis.Conn, k *records.Kind, parts ...string) string {
	return conn.Prefix() + k.In(conn.PlainKeys()).Key(parts...)
}
