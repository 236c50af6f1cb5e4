package web

import (
	"net/netip"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"github.com/tidemark-dev/tidemark/fault"
)

const (
	guessRate      = 10  // invalid credentials a second that one address may send
	guessBurst     = 100 // and at once
	guessAddresses = 16 << 10
)

// guesses limits how many invalid credentials an address may send. Beyond that its requests are refused before their
// credentials are checked. Only addresses that sent one are kept; if there are too many, the one that was quiet for longest is
// forgotten. All methods may be called by several goroutines.
type guesses struct {
	left *lru.Cache[netip.Prefix, *rate.Limiter]
}

func newGuesses() guesses {
	left, err := lru.New[netip.Prefix, *rate.Limiter](guessAddresses)
	if err != nil {
		panic(err) // impossible: the size is positive
	}
	return guesses{left: left}
}

// check returns an error if an address has sent too many.
func (g guesses) check(from netip.Prefix) error {
	left, ok := g.left.Get(from)
	if !ok {
		return nil
	}
	if tokens := left.Tokens(); tokens < 1 {
		return &fault.Error{
			Kind: fault.Limited, Slug: fault.SlugRateLimited, Detail: "too many invalid credentials were sent from this address",
			RetryAfter: time.Duration((1 - tokens) / guessRate * float64(time.Second)),
		}
	}
	return nil
}

// add counts an invalid credential.
func (g guesses) add(from netip.Prefix) {
	left, ok := g.left.Get(from)
	if !ok {
		left = rate.NewLimiter(guessRate, guessBurst)
		if before, found, _ := g.left.PeekOrAdd(from, left); found {
			left = before
		}
	}
	left.Allow()
}

// subnetOf returns the network of a client's address: the address itself or, of IPv6, the subnet, since one client has many
// addresses there. It is invalid if there is no address, as on a unix socket.
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
