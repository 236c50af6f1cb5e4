package access

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/lua"
)

var quotaScript = lua.Must("access/quota")

// Quotas counts what principals use on all servers together. It may be used by many goroutines.
type Quotas struct {
	conn *redis.Conn
}

// NewQuotas returns the quotas in the Redis of a connection.
func NewQuotas(conn *redis.Conn) *Quotas { return &Quotas{conn: conn} }

// Quota is how much of something an owner may use.
type Quota struct {
	Owner string  // a principal's name: quotas of one owner share a slot
	Name  string  // of the quota among those of its owner
	Rate  float64 // units that come back in a second; more than 0
	Burst int     // units of a full quota
}

// Taken is the outcome of Take.
type Taken struct {
	OK    bool
	Left  int           // units that are left
	Retry time.Duration // when there will be enough, if nothing was taken; meaningless for more than the burst
}

// Take takes units of a quota, all or none. A call that is repeated because its reply was lost takes them again.
func (q *Quotas) Take(ctx context.Context, of Quota, units int) (Taken, error) {
	args := []string{
		strconv.Itoa(units), strconv.FormatFloat(1e6/of.Rate, 'f', 3, 64), strconv.Itoa(of.Burst),
	}
	reply, err := q.conn.Run(ctx, quotaScript, []string{quotaKey(q.conn.Prefix(), of.Owner, of.Name)}, args)
	if err != nil {
		return Taken{}, fmt.Errorf("take of a quota: %w", err)
	}
	return taken(reply)
}

// taken decodes what quota.lua returns.
func taken(reply redis.Reply) (Taken, error) {
	d := reply.Decoder()
	switch reply.Status {
	case redis.OK:
		return Taken{OK: true, Left: int(d.Int64())}, d.End()
	case statusLimited:
		return Taken{Left: int(d.Int64()), Retry: time.Duration(d.Int64()) * time.Microsecond}, d.End()
	default:
		return Taken{}, refusals.Error(reply)
	}
}
