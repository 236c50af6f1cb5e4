// Package guesses limits how many invalid credentials an address may send, so that nobody can search for one, or keep a
// server busy with verifying them.

package access

import (
	"net/netip"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"github.com/tidemark-dev/tidemark/fault"
)

const (
	perSecond = 10  // invalid credentials that one address may send
	burst     = 100 // and at once

	maxAddresses = 16 << 10 // that are remembered: about 4 MB
)

// FailureLimiter counts the invalid credentials of addresses. Only addresses that sent one are remembered; if there are
// too many, the one that was quiet for longest is forgotten. All methods may be called by several goroutines.
type FailureLimiter struct {
	left *lru.Cache[netip.Prefix, *rate.Limiter]
}

// NewFailureLimiter returns a count without addresses.
func NewFailureLimiter() *FailureLimiter {
	left, err := lru.New[netip.Prefix, *rate.Limiter](maxAddresses)
	if err != nil {
		panic(err) // impossible: the size is positive
	}
	return &FailureLimiter{left: left}
}

// Check returns an error with fault.SlugRateLimited if a client's address, with or without a port, has sent too many.
func (g *FailureLimiter) Check(address string) error {
	left, ok := g.left.Get(Network(address))
	if !ok {
		return nil
	}
	tokens := left.Tokens()
	if tokens >= 1 {
		return nil
	}
	return &fault.Error{
		Kind: fault.Limited, Slug: fault.SlugRateLimited,
		Detail:     "too many invalid credentials were sent from this address",
		RetryAfter: time.Duration((1 - tokens) / perSecond * float64(time.Second)),
	}
}

// Add counts an invalid credential.
func (g *FailureLimiter) Add(address string) {
	from := Network(address)
	left, ok := g.left.Get(from)
	if !ok {
		left = rate.NewLimiter(perSecond, burst)
		if before, found, _ := g.left.PeekOrAdd(from, left); found {
			left = before
		}
	}
	left.Allow()
}
