// Package guesses limits how many invalid credentials an address may send, so that nobody can search for one, or keep a server
// busy with verifying them.
package guesses

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

// Guesses counts the invalid credentials of addresses. Only addresses that sent one are remembered; if there are too many, the
// one that was quiet for longest is forgotten. All methods may be called by several goroutines.
type Guesses struct {
	left *lru.Cache[netip.Prefix, *rate.Limiter]
}

// New returns a count without addresses.
func New() *Guesses {
	left, err := lru.New[netip.Prefix, *rate.Limiter](maxAddresses)
	if err != nil {
		panic(err) // impossible: the size is positive
	}
	return &Guesses{left: left}
}

// Check returns an error with fault.SlugRateLimited if a client's address, host:port, has sent too many.
func (g *Guesses) Check(address string) error {
	left, ok := g.left.Get(subnetOf(address))
	if !ok {
		return nil
	}
	tokens := left.Tokens()
	if tokens >= 1 {
		return nil
	}
	return &fault.Error{
		Kind: fault.Limited, Slug: fault.SlugRateLimited, Detail: "too many invalid credentials were sent from this address",
		RetryAfter: time.Duration((1 - tokens) / perSecond * float64(time.Second)),
	}
}

// Add counts an invalid credential.
func (g *Guesses) Add(address string) {
	from := subnetOf(address)
	left, ok := g.left.Get(from)
	if !ok {
		left = rate.NewLimiter(perSecond, burst)
		if before, found, _ := g.left.PeekOrAdd(from, left); found {
			left = before
		}
	}
	left.Allow()
}

// subnetOf returns the network of an address: the address itself or, of IPv6, the subnet, since one client has many addresses
// there. It is invalid if there is no address, as on a unix socket.
func subnetOf(address string) netip.Prefix {
	const subnetBits = 64
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return netip.Prefix{}
	}
	client := at.Addr().Unmap()
	bits := client.BitLen()
	if client.Is6() {
		bits = subnetBits
	}
	subnet, _ := client.Prefix(bits) // the number of bits is valid
	return subnet
}
