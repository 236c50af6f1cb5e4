package access

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/tidemark-dev/tidemark/internal/access/limits"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/lua"
)

var quotaScript = lua.Must("access/quota")

// Quotas counts the usage of principals on all servers together. Many goroutines may use it.
type Quotas struct {
	conn *redis.Conn
}

// NewQuotas returns the quotas in the Redis of a connection.
func NewQuotas(conn *redis.Conn) *Quotas { return &Quotas{conn: conn} }

// Take takes units of a quota, all or none. A call that is repeated because its reply was lost takes them again.
func (q *Quotas) Take(ctx context.Context, of limits.Quota, units int) (limits.Taken, error) {
	args := []string{
		strconv.Itoa(units), strconv.FormatFloat(1e6/of.Rate, 'f', 3, 64), strconv.Itoa(of.Burst),
	}
	reply, err := q.conn.Run(ctx, quotaScript, []string{quotaKey(q.conn.Prefix(), of.Owner, of.Name)}, args)
	if err != nil {
		return limits.Taken{}, fmt.Errorf("take of a quota: %w", err)
	}
	return taken(reply)
}

// taken decodes the reply of quota.lua.
func taken(reply redis.Reply) (limits.Taken, error) {
	d := reply.Decoder()
	switch reply.Status {
	case redis.OK:
		return limits.Taken{OK: true, Left: int(d.Int64())}, d.End()
	case statusLimited:
		return limits.Taken{Left: int(d.Int64()), Retry: time.Duration(d.Int64()) * time.Microsecond}, d.End()
	default:
		return limits.Taken{}, refusals.Error(reply)
	}
}
