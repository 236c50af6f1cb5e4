package records

import (
	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/internal/records/locks"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/leases"
)

var _ locks.Store = (*leases.Store)(nil)

// NewLocks returns the locks in the Redis of a connection. A release is notified on the sharded pub/sub channel that
// has the name of the lock's key.
func NewLocks(conn *redis.Conn) *leases.Store {
	of := func(k *records.Kind) func(name string) string {
		return func(name string) string {
			parts, _ := records.LockKind.Parse(name) // of a name, which always is a key with braces
			return key(conn, k, parts...)
		}
	}
	return leases.NewLayout(conn, leases.Layout{Holder: of(records.LockKind), Topic: of(records.LockKind),
		Fence: of(records.LockFenceKind)})
}
