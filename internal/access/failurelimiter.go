package access

import (
	"net/netip"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"github.com/tidemark-dev/tidemark/fault"
)

const (
	failuresPerSecond = 10  // invalid credentials that one address may send
	failureBurst      = 100 // and at once

	maxFailingAddresses = 16 << 10 // that are remembered: about 4 MB
)

// FailureLimiter limits the invalid credentials of an address, so that an attacker can't search for a valid one or keep
// a server busy with verifying signatures. It remembers only addresses that sent an invalid one; if there are too many,
// it drops the least recently used. Any number of goroutines may use it.
type FailureLimiter struct {
	limiters *lru.Cache[netip.Prefix, *rate.Limiter]
}

// NewFailureLimiter returns a limiter that knows no addresses.
func NewFailureLimiter() *FailureLimiter {
	limiters, err := lru.New[netip.Prefix, *rate.Limiter](maxFailingAddresses)
	if err != nil {
		panic(err) // impossible: the size is positive
	}
	return &FailureLimiter{limiters: limiters}
}

// Check returns an error with fault.SlugRateLimited if a client's address, with or without a port, has sent too many.
func (g *FailureLimiter) Check(address string) error {
	limiter, ok := g.limiters.Get(Network(address))
	if !ok {
		return nil
	}
	tokens := limiter.Tokens()
	if tokens >= 1 {
		return nil
	}
	return &fault.Error{
		Kind: fault.Limited, Slug: fault.SlugRateLimited,
		Detail:     "too many invalid credentials were sent from this address",
		RetryAfter: time.Duration((1 - tokens) / failuresPerSecond * float64(time.Second)),
	}
}

// Add counts an invalid credential.
func (g *FailureLimiter) Add(address string) {
	from := Network(address)
	limiter, ok := g.limiters.Get(from)
	if !ok {
		limiter = rate.NewLimiter(failuresPerSecond, failureBurst)
		if before, found, _ := g.limiters.PeekOrAdd(from, limiter); found {
			limiter = before
		}
	}
	limiter.Allow()
}
