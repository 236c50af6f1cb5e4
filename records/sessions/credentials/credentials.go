// Package credentials makes the tokens of sessions credentials of package access.
//
// Start from [New]. The first request with a token reads its session, through a cache that reports changes; later
// requests cost the storage nothing. A revocation deletes the session's key: the cache notifies every server that has
// read it, and each reads again, finds no session, and ends the requests that wait with it. There is no list of
// revocations, and no polling.
//
//	request ──► Authenticate ──► known? ──► Principal, with what is known as its Origin
//	                               │ no          ▲
//	                               └──► Read ────┤ reads again, if requests wait with it
//	cache:  Changed(session), Lost() ────────────┘ gone: Revoked, Notify
//
// # What can be missed
//
// While the connection to the storage is lost, changes are not reported. So each known session is read again: at its
// next request or, if requests wait with it, as soon as the storage answers. Until then those continue to wait, and new
// requests fail as unavailable.
//
// # Memory
//
// A server knows up to 20,000 sessions, about 600 bytes each, and those with which requests wait. The least recently
// used one is dropped, and read again when it is used.
package credentials

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/tidemark-dev/tidemark/access"
	"github.com/tidemark-dev/tidemark/records/sessions"
)

// maxKnown is how many sessions are known, besides those with which requests wait.
const maxKnown = 20_000

// Service checks tokens. *sessions.Service implements it.
type Service interface {
	// Ref returns the session that a token names, if it has a form of which there can be sessions.
	Ref(token string) (sessions.Ref, bool)
	// Check returns the session of a token, renews it if that is due, and moves it if it is one of the source.
	Check(ctx context.Context, token string) (sessions.Session, error)
	// Rules returns what holds for all sessions.
	Rules() sessions.Rules
}

// Cache reads sessions, and reports when they change.
type Cache interface {
	// Read returns a session, without its Device and AuthData. Errors: sessions.ErrNotFound, and those of the storage.
	Read(ctx context.Context, of sessions.Ref) (Reading, error)
	// Listen calls changed after a session that was read has changed or ended, and lost when that may have been missed
	// for any, until stop is called. Both must return soon.
	Listen(changed func(of sessions.Ref), lost func()) (stop func())
}

// Reading is a session as it was read.
type Reading struct {
	Session sessions.Session
	// Fresh reports whether the session is still as it was read. A later change is reported after Fresh has returned
	// true.
	Fresh func() bool
}

// Options configures Credentials.
type Options struct {
	Service Service
	Cache   Cache
	Grants  access.Grants // what a session allows its user
	Logger  *slog.Logger
}

// Credentials knows sessions by their tokens. It may be used by many goroutines.
type Credentials struct {
	o     Options
	renew time.Duration // a session is renewed when it was idle for so long

	mu      sync.Mutex // of what follows, and of the fields of known
	lru     *simplelru.LRU[sessions.Ref, *known]
	held    map[sessions.Ref]*known // those with which requests wait
	losses  int                     // how often changes may have been missed
	doubted map[sessions.Ref]*known // those of held that are to be read again
	ended   int                     // requests that waited with sessions that are gone
	wake    chan struct{}
	stop    func() // listening

	listening sync.Mutex
	listeners map[*func()]struct{}
}

var (
	_ access.Costly      = (*Credentials)(nil)
	_ access.Revocations = (*Credentials)(nil)
)

// New returns credentials that know no session yet, and listens to the cache until Run has ended.
func New(o Options) *Credentials {
	c := &Credentials{
		o: o, renew: o.Service.Rules().TTL / 10, held: map[sessions.Ref]*known{}, doubted: map[sessions.Ref]*known{},
		wake: make(chan struct{}, 1), listeners: map[*func()]struct{}{},
	}
	c.lru, _ = simplelru.NewLRU(maxKnown, forget) // the size is positive: no error
	c.stop = o.Cache.Listen(c.change, c.lose)
	return c
}

// Counts says how much there is.
type Counts struct {
	Known int // sessions in memory, without those that only requests wait with
	Ended int // requests that waited with a session when it was revoked, or ended, since New
}

// Counts returns how much there is now.
func (c *Credentials) Counts() Counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Counts{Known: c.lru.Len(), Ended: c.ended}
}

// forget makes sure that a session that isn't known any more is read again before a request waits with it: its changes
// aren't noted.
func forget(_ sessions.Ref, k *known) { k.changed = k.changed || k.waits == 0 }

// Accepts reports whether a credential has a form of which there can be sessions.
func (c *Credentials) Accepts(credential string) bool {
	_, ok := c.o.Service.Ref(credential)
	return ok
}

// Knows reports whether a session was found valid before, and nothing has changed since.
func (c *Credentials) Knows(credential string) bool {
	of, ok := c.o.Service.Ref(credential)
	return ok && c.find(of) != nil
}

// Authenticate returns the user of a session, and renews the session if that is due. Errors:
// access.ErrInvalidCredential, and those of the storage.
func (c *Credentials) Authenticate(ctx context.Context, credential string) (*access.Principal, error) {
	of, ok := c.o.Service.Ref(credential)
	if !ok {
		return nil, access.ErrInvalidCredential
	}
	k := c.find(of)
	if k == nil {
		found, err := c.read(ctx, of, credential)
		switch {
		case errors.Is(err, sessions.ErrNotFound):
			return nil, access.ErrInvalidCredential
		case err != nil:
			return nil, err
		}
		k = found
	}
	if c.isDue(k) {
		if err := c.touch(ctx, k, credential); err != nil {
			return nil, err
		}
	}
	return k.principal, nil
}

// find returns what is known of a session, or nil if it must be read.
func (c *Credentials) find(of sessions.Ref) *known {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.lookUp(of)
	if k == nil || k.isDoubtful() {
		return nil
	}
	return k
}

func (c *Credentials) lookUp(of sessions.Ref) *known {
	if k, ok := c.lru.Get(of); ok {
		return k
	}
	return c.held[of]
}

// readTries is how often a session is read that changes while it is read.
const readTries = 3

// read reads a session, which credential is the token of. The source's ones are moved before they can be read.
func (c *Credentials) read(ctx context.Context, of sessions.Ref, credential string) (*known, error) {
	k, err := c.load(ctx, of)
	if !errors.Is(err, sessions.ErrNotFound) {
		return k, err
	}
	if _, isOurs := sessions.Parse(credential); isOurs {
		return nil, err
	}
	if _, err := c.o.Service.Check(ctx, credential); err != nil {
		return nil, err
	}
	return c.load(ctx, of)
}

// load reads a session until nothing has changed meanwhile, and keeps it. If it changes all the time, it is kept as
// doubtful.
func (c *Credentials) load(ctx context.Context, of sessions.Ref) (*known, error) {
	for try := 1; ; try++ {
		r, err := c.o.Cache.Read(ctx, of)
		if err != nil {
			return nil, err
		}
		c.mu.Lock()
		if r.Fresh() || try == readTries {
			k := c.keep(of, r)
			c.mu.Unlock()
			return k, nil
		}
		c.mu.Unlock()
	}
}

// keep keeps what was read. A session that is known keeps its principal, with which requests wait.
func (c *Credentials) keep(of sessions.Ref, r Reading) *known {
	k := c.lookUp(of)
	if k == nil || k.gone.Load() {
		k = c.newKnown(of, r.Session)
	}
	k.update(r.Session, c.o.Service.Rules().TTL)
	k.losses, k.changed = c.losses, !r.Fresh()
	c.lru.Add(of, k)
	if k.changed && k.waits > 0 {
		c.doubt(k)
	}
	return k
}

// isDue reports whether a session is to be renewed, and by this caller.
func (c *Credentials) isDue(k *known) bool {
	return time.Since(time.Unix(k.active.Load(), 0)) >= c.renew && k.touching.CompareAndSwap(false, true)
}

// touch renews a session. If that can't be done now the session is valid all the same, until its end.
func (c *Credentials) touch(ctx context.Context, k *known, credential string) error {
	defer k.touching.Store(false)
	s, err := c.o.Service.Check(ctx, credential)
	switch {
	case errors.Is(err, sessions.ErrNotFound):
		c.change(k.of)
		return access.ErrInvalidCredential
	case err != nil:
		c.o.Logger.WarnContext(ctx, "cannot renew a session", "error", err)
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	k.update(s, c.o.Service.Rules().TTL)
	return nil
}
