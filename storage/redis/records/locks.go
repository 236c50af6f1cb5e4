package records

import (
	"github.com/tidemark-dev/tidemark/records/locks"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/leases"
)

var _ locks.Store = (*leases.Store)(nil)

// NewLocks returns the locks in the Redis of a connection. A release is notified on the sharded pub/sub channel that
// has the name of the lock's key.
func NewLocks(conn *redis.Conn) *leases.Store {
	key := func(name string) string { return conn.Prefix() + name }
	return leases.NewLayout(conn, leases.Layout{Holder: key, Topic: key})
}
