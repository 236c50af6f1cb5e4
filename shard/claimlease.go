package shard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tidemark-dev/tidemark/lease"
)

// errOusted is the error of a node that had a shard and can't have it again.
var errOusted = fmt.Errorf("%w: the shard can't be claimed again", lease.ErrLost)

// claimLease makes a lease of the claim of a member: it is the lease.Store of that one lease.
//
// A lease can expire here while its claim is still valid in the store. A node that keeps its shard reuses its token, so
// that its own claim does not block it.
type claimLease struct {
	claims  Claims
	member  Member
	refused func(ctx context.Context, why error) // is called if no shard is available

	mu      sync.Mutex
	token   string  // of the claim; "": there is none
	granted bool    // the token has claimed a shard; false: it may have
	claimed Claimed // the last one
	keeps   bool    // the node keeps its shard: it wants the same one again, or none
	loaded  bool    // sent with pings
}

// current returns the claim, and its token.
func (c *claimLease) current() (claimed Claimed, token string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.claimed, c.token
}

// keep records whether the node keeps its shard, and whether it has loaded it.
func (c *claimLease) keep(keeps, loaded bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keeps, c.loaded = keeps, loaded
}

// Acquire implements lease.Store. If the claim was granted it is renewed.
func (c *claimLease) Acquire(ctx context.Context, r lease.Request) (fence uint64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.granted {
		err := c.claims.Ping(ctx, c.member, c.token, r.TTL, c.loaded)
		if errors.Is(err, ErrMoved) || !errors.Is(err, lease.ErrLost) {
			return c.claimed.Incarnation, err
		}
		c.token, c.granted = "", false
	}
	if c.token == "" {
		c.token = r.Token
	}
	last := Claimed{}
	if c.keeps {
		last = c.claimed
	}
	claimed, err := c.claims.Claim(ctx, c.member, c.token, r.TTL, last)
	switch {
	case err == nil:
		c.granted, c.claimed = true, claimed
	case errors.Is(err, lease.ErrLost):
		c.token = "" // it never gets another shard
	case c.keeps && !errors.Is(err, ErrUnsure) && (errors.Is(err, lease.ErrHeld) || errors.Is(err, lease.ErrRefused)):
		return 0, fmt.Errorf("%w: %v", errOusted, err) //nolint:errorlint // a *lease.HeldError would be waited for
	case errors.Is(err, lease.ErrHeld):
		c.refused(ctx, err)
	}
	return claimed.Incarnation, err
}

// Renew implements lease.Store.
func (c *claimLease) Renew(ctx context.Context, rs []lease.Request) []error {
	c.mu.Lock()
	token, loaded := c.token, c.loaded
	c.mu.Unlock()
	errs := make([]error, len(rs))
	for i, r := range rs {
		errs[i] = c.claims.Ping(ctx, c.member, token, r.TTL, loaded)
	}
	return errs
}

// Release implements lease.Store. A shard that the node keeps isn't left.
func (c *claimLease) Release(ctx context.Context, _, _ string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.keeps || c.token == "" {
		return nil
	}
	token := c.token
	c.token, c.granted = "", false
	return c.claims.Leave(ctx, c.member, token)
}

// leaveTimeout bounds a Leave that is the last thing that a node does.
const leaveTimeout = time.Second

// leave ends the claim if there is one.
func (c *claimLease) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	c.keep(false, false)
	_ = c.Release(ctx, "", "") // otherwise the claim ends by itself
}

// Watch implements lease.Store.
func (c *claimLease) Watch(_ string, freed func()) (stop func()) {
	return c.claims.Watch(c.member.Cache, c.member.DC, freed)
}
