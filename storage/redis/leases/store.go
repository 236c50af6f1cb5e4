package leases

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/tidemark-dev/tidemark/lease"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/lua"
	"github.com/tidemark-dev/tidemark/storage/redis/pubsub"
)

// The scripts of leases.
var (
	acquireScript = lua.Must("leases/acquire")
	renewScript   = lua.Must("leases/renew")
	releaseScript = lua.Must("leases/release")
	showScript    = lua.Must("leases/show")
)

// The statuses of the scripts of leases, besides those that all scripts have.
const statusHeld redis.Status = "HELD"

// textFree is the message of a release. A topic that a Layout names may have other messages, too.
const textFree = "free"

var refusals = redis.Refusals{"LOST": lease.ErrLost}

// Store keeps leases in Redis. Its methods may be called by many goroutines.
type Store struct {
	conn *redis.Conn
	keys Layout
}

var _ lease.Store = (*Store)(nil)

// New returns the leases in the Redis of a connection.
func New(conn *redis.Conn) *Store { return NewLayout(conn, layout(conn.Prefix())) }

// NewLayout is New for leases whose keys have other names, such as those in the slot of the data that they protect.
func NewLayout(conn *redis.Conn, keys Layout) *Store { return &Store{conn: conn, keys: keys} }

// Acquire implements lease.Store.
func (s *Store) Acquire(ctx context.Context, r lease.Request) (fence uint64, err error) {
	h, err := s.Grant(ctx, r)
	return h.Fence, err
}

// Grant is Acquire, and also returns the end of the lease.
func (s *Store) Grant(ctx context.Context, r lease.Request) (lease.Holding, error) {
	c := s.call(r)
	reply, err := s.conn.Run(ctx, acquireScript, c.Keys, c.Args)
	if err != nil {
		return lease.Holding{}, fmt.Errorf("acquire: %w", err)
	}
	return Granted(reply, refusals)
}

// Granted decodes the reply of a script that grants a lease as acquire.lua does. It refuses other
// statuses.
func Granted(reply redis.Reply, refused redis.Refusals) (lease.Holding, error) {
	d := reply.Decoder()
	switch reply.Status {
	case redis.OK:
		return holding(d)
	case statusHeld:
		held := &lease.HeldError{For: time.Duration(d.Int64()) * time.Millisecond}
		return lease.Holding{}, cmp.Or[error](d.End(), held)
	default:
		return lease.Holding{}, refused.Error(reply)
	}
}

// holding decodes a fence and an end in milliseconds, of which 0 is none.
func holding(d *redis.Decoder) (h lease.Holding, err error) {
	h.Fence = uint64(d.Int64())
	if ms := d.Int64(); ms > 0 {
		h.Until = time.UnixMilli(ms).UTC()
	}
	return h, d.End()
}

// Renew implements lease.Store: one pipeline for each node.
func (s *Store) Renew(ctx context.Context, rs []lease.Request) []error {
	_, errs := s.ProlongEach(ctx, rs)
	return errs
}

// Prolong is Renew for one lease, and also returns its end.
func (s *Store) Prolong(ctx context.Context, r lease.Request) (lease.Holding, error) {
	holdings, errs := s.ProlongEach(ctx, []lease.Request{r})
	return holdings[0], errs[0]
}

// ProlongEach is Renew, and also returns the end of each lease.
func (s *Store) ProlongEach(ctx context.Context, rs []lease.Request) ([]lease.Holding, []error) {
	calls, holdings, errs := make([]redis.Call, len(rs)), make([]lease.Holding, len(rs)), make([]error, len(rs))
	for i, r := range rs {
		calls[i] = s.call(r)
	}
	for i, result := range s.conn.RunMany(ctx, renewScript, calls) {
		if errs[i] = result.Err; errs[i] == nil {
			holdings[i], errs[i] = Granted(result.Reply, refusals)
		}
	}
	return holdings, errs
}

// Show returns the fence of the last holder of a lease, if one is known, and the end of the lease.
func (s *Store) Show(ctx context.Context, name string) (lease.Holding, error) {
	reply, err := s.conn.Run(ctx, showScript, s.keys.of(name), nil)
	if err != nil {
		return lease.Holding{}, fmt.Errorf("show: %w", err)
	}
	return Granted(reply, refusals)
}

// call returns a call of the scripts that grant or renew a lease.
func (s *Store) call(r lease.Request) redis.Call {
	return redis.Call{
		Keys: s.keys.of(r.Name),
		Args: []string{r.Token, redis.Milliseconds(r.TTL)},
	}
}

// Release implements lease.Store.
func (s *Store) Release(ctx context.Context, name, token string) error {
	reply, err := s.conn.Run(ctx, releaseScript, s.keys.of(name), []string{token, s.keys.Topic(name)})
	if err != nil {
		return fmt.Errorf("release: %w", err)
	}
	return refusals.Check(reply, redis.OK)
}

// Watch implements lease.Store.
func (s *Store) Watch(name string, freed func()) (stop func()) {
	return s.conn.Listen(s.keys.Topic(name), pubsub.Listener{
		Confirmed: freed,
		Message: func(text string) {
			if text == textFree {
				freed()
			}
		},
		Repeats: true,
	})
}
