package records

import (
	"strings"

	"github.com/tidemark-dev/tidemark/internal/records/locks"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/leases"
)

var _ locks.Store = (*leases.Store)(nil)

// NewLocks returns the locks in the Redis of a connection. A release is notified on the sharded pub/sub channel that
// has the name of the lock's key.
func NewLocks(conn *redis.Conn) *leases.Store {
	key := func(name string) string { return conn.Prefix() + name }
	return leases.NewLayout(conn, leases.Layout{
		Holder: key, Topic: key, Fence: func(name string) string { return key(lockFence(name)) },
	})
}

// lockFence returns the key of kind records.LockFence of a lock with a key of kind records.Lock.
func lockFence(name string) string { return "lock_fence" + strings.TrimPrefix(name, "lock") }
