package limits

import (
	"context"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/recent"
)

// maxClients is how many principals and addresses are kept in memory, the most recently seen ones: at most 25 MB. A
// client that was dropped has its full limits again. Requests that wait are never dropped.
const maxClients = 20_000

// Options configures a Limiter.
type Options struct {
	Users     access.Limits // of each user and each holder of a ticket; an API key has its own, if any
	Addresses access.Limits // of each address of clients
	Quotas    access.Limits // of each principal on all servers together; see QuotaLimits
	Store     Quotas        // required if there are Quotas
	// Refused counts a refused request, by the name of the limit and its owner: user, key, address or quota. nil: they
	// aren't counted.
	Refused func(limit, of string)
}

// Quotas counts the events of all servers together.
type Quotas interface {
	// Take takes units of a quota, all or none.
	Take(ctx context.Context, of Quota, units int) (Taken, error)
}

// Quota is a token bucket that all servers share.
type Quota struct {
	Owner string  // a principal's name: quotas of one owner share a slot
	Name  string  // name of the quota among those of its owner
	Rate  float64 // units that come back in a second; more than 0
	Burst int     // units of a full quota
}

// Taken is the outcome of Take.
type Taken struct {
	OK    bool
	Left  int           // units that are left
	Retry time.Duration // when enough will be available, if the request was refused; undefined for more than the burst
}

// Limits are the limits of all clients, as in Options.
type Limits struct{ Users, Addresses, Quotas access.Limits }

// Limiter knows the limits of clients. A nil Limiter has none. Any number of goroutines may use it.
type Limiter struct {
	o       Options
	current atomic.Pointer[Limits]

	refusals recent.LRU[refusal, string]

	mu      sync.Mutex
	clients *simplelru.LRU[who, *counts]
	waiting map[who]int // requests that wait; without entries of 0
}

// who is the key of a principal or an address.
type who struct {
	kind    access.Kind  // of a principal; Nobody: of an address
	name    string       // the principal's
	network netip.Prefix // of the address
}

// of returns the owner of the limits, for metrics and errors.
func (w who) of() string {
	switch w.kind {
	case access.Nobody:
		return "address"
	case access.APIKey:
		return "key"
	case access.User, access.Session, access.TicketHolder, access.Administrator:
	}
	return "user"
}

// New returns a limiter.
func New(o Options) *Limiter {
	clients, err := simplelru.NewLRU[who, *counts](maxClients, nil)
	if err != nil {
		panic(err) // impossible: the size is positive
	}
	if o.Refused == nil {
		o.Refused = func(string, string) {}
	}
	l := &Limiter{o: o, clients: clients, waiting: map[who]int{}}
	l.Set(Limits{Users: o.Users, Addresses: o.Addresses, Quotas: o.Quotas})
	return l
}

// Set replaces the limits for later calls of Client. Quotas also change for the clients that it has returned.
func (l *Limiter) Set(limits Limits) { l.current.Store(&limits) }

// Limits returns the limits in use: another pointer after a call of Set. It must not be changed.
func (l *Limiter) Limits() *Limits {
	if l == nil {
		return nil
	}
	return l.current.Load()
}

// Client returns the client that a request counts for. p is nil on an open service. The address may have a port; on a
// Unix socket it is empty.
func (l *Limiter) Client(p *access.Principal, address string) Client {
	if l == nil || p != nil && p.Kind == access.Administrator {
		return Client{}
	}
	c, current := Client{limiter: l}, l.current.Load()
	if current.Addresses != (access.Limits{}) {
		if network := access.Network(address); network.IsValid() {
			c.address = l.counts(who{network: network}, &current.Addresses)
		}
	}
	if p != nil && p.Kind != access.Nobody {
		if limits := current.of(p); *limits != (access.Limits{}) {
			c.principal = l.counts(whoIs(p), limits)
		}
		if current.Quotas != (access.Limits{}) {
			c.quotas = p
		}
	}
	if c == (Client{limiter: l}) {
		return Client{}
	}
	return c
}

// LimitsOf returns the limits of a principal as text; empty: it has none.
func (l *Limiter) LimitsOf(p *access.Principal) string {
	if l == nil || p == nil || p.Kind == access.Administrator || p.Kind == access.Nobody {
		return ""
	}
	of := *l.current.Load().of(p)
	if of == (access.Limits{}) {
		return ""
	}
	return of.String()
}

func (l *Limits) of(p *access.Principal) *access.Limits {
	if p.Kind == access.APIKey {
		return &p.Limits
	}
	return &l.Users
}

func whoIs(p *access.Principal) who {
	switch p.Kind {
	case access.User, access.Session: // of the same users
		return who{kind: access.User, name: p.Subject}
	case access.APIKey, access.TicketHolder, access.Nobody, access.Administrator:
	}
	return who{kind: p.Kind, name: p.Credential}
}

// counts returns the counts of a client. Counting starts again when its limits have changed.
func (l *Limiter) counts(w who, limits *access.Limits) *counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	c, ok := l.clients.Get(w)
	if !ok || c.limits != *limits {
		c = &counts{who: w, limits: *limits}
		l.clients.Add(w, c)
	}
	return c
}
