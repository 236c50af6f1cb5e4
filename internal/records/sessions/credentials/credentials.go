// Package credentials makes the tokens of sessions credentials of package access.
//
// Start from [New]. The first request with a token reads its session from the storage, which reports its next change;
// later requests cost the storage nothing, except for one that renews the session, once a minute. A revocation deletes
// the session's key: every server that has read it is notified, reads it again, finds no session, and ends the requests
// that wait with it. There is no list of revocations, and no polling.
//
//	request ──► Authenticate ──► in memory? ──► Principal, whose Origin is the session in memory
//	                               │ no          ▲
//	                               └──► Read ────┤ reads again, if requests wait with it
//	tracker: Changed(session), Lost() ───────────┘ gone: Revoked, Notify
//
// # Memory
//
// Sessions that have not changed since they were read are kept in memory: at most 20,000, of about 600 bytes each. A
// reported change removes a session from it; the least recently used one is dropped if there are too many. Sessions
// with waiting requests are also in a second list, so that Run reads them again after each change.
//
// A change can be reported while a session is being read. Reads in progress are therefore tracked, and a read is
// repeated if its session changed meanwhile.
//
// # What can be missed
//
// While the connection to the storage is lost, changes are not reported. The memory is then cleared: a session is read
// at its next request or, if requests wait with it, as soon as the storage answers. Until then those continue to wait,
// and new requests fail as unavailable.
//
// A storage that can't report changes is read for each request, and every 5 seconds for each session with which requests
// wait.
package credentials

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/pace"
	"github.com/tidemark-dev/tidemark/internal/records/sessions"
)

// maxKnown is how many sessions are kept in memory.
const maxKnown = 20_000

// Service checks tokens. *sessions.Service implements it.
type Service interface {
	// Accepts reports whether a token looks like one that can have a session.
	Accepts(token string) bool
	// Parse returns the session of a token if it has the form of a session's token.
	Parse(token string) (sessions.Ref, bool)
	// CheckRef returns a session, and renews it if that is due.
	CheckRef(ctx context.Context, of sessions.Ref) (sessions.Session, error)
	// Rules returns the rules for all sessions.
	Rules() sessions.Rules
}

// Tracker reads sessions from the storage, and reports when they change.
type Tracker interface {
	// Read returns a session, without its Device and AuthData. Its next change is reported. Errors:
	// sessions.ErrNotFound, and those of the storage.
	Read(ctx context.Context, of sessions.Ref) (sessions.Session, error)
	// Tracks reports whether changes are reported. Otherwise Listen does nothing.
	Tracks() bool
	// Listen calls changed after a session that was read has changed or ended, and lost when changes may have been
	// missed, until stop is called. Both must return soon.
	Listen(changed func(of sessions.Ref), lost func()) (stop func())
}

// Options configures Credentials.
type Options struct {
	Service Service
	Tracker Tracker
	Grants  access.Grants // the permissions of a session's user
	Logger  *slog.Logger
}

// Credentials maps tokens to sessions. It may be used by many goroutines.
type Credentials struct {
	o     Options
	renew time.Duration // a session is renewed after it was idle for this long
	// pausedUntil is when sessions may be renewed again, in seconds since 1970.
	pausedUntil atomic.Int64

	mu      sync.Mutex
	running bool // changes are reported
	// valid has the sessions that have not changed since they were read.
	valid    *simplelru.LRU[sessions.Ref, *known]
	held     map[sessions.Ref][]*known // with which requests wait
	doubted  map[sessions.Ref]struct{} // of held: to be read again
	reading  map[sessions.Ref]*reads
	losses   int // how often changes may have been missed
	ended    int // requests whose sessions ended while they waited
	reported int // of ended: reported to listeners

	wake chan struct{} // buffered (capacity 1): Run has work

	listening sync.Mutex
	listeners map[*func()]struct{}
}

// reads is the number of reads of one session in progress, and of its changes meanwhile.
type reads struct{ running, changes int }

// known is a session in memory. It is the Origin of its principal.
type known struct {
	of        sessions.Ref
	by        *Credentials
	principal *access.Principal

	ended    atomic.Bool  // the session was revoked, or has ended
	ends     atomic.Int64 // in milliseconds since 1970
	active   atomic.Int64 // when it was last active, in seconds since 1970
	touching atomic.Bool  // it is being renewed
	touched  atomic.Int64 // when that was tried last, in seconds since 1970

	waits int // requests that wait with it; guarded by Credentials.mu
}

var (
	_ access.Costly      = (*Credentials)(nil)
	_ access.Revocations = (*Credentials)(nil)
	_ access.Lasting     = (*known)(nil)
)

// New returns credentials that have no session in memory. While Run runs they keep sessions in memory and detect
// revocations; otherwise each request reads its session.
func New(o Options) *Credentials {
	c := &Credentials{
		o: o, renew: o.Service.Rules().RenewAfter(), held: map[sessions.Ref][]*known{},
		doubted: map[sessions.Ref]struct{}{}, reading: map[sessions.Ref]*reads{}, wake: make(chan struct{}, 1),
		listeners: map[*func()]struct{}{},
	}
	c.valid, _ = simplelru.NewLRU[sessions.Ref, *known](maxKnown, nil) // the size is positive: no error
	return c
}

// Counts are the sizes of Credentials.
type Counts struct {
	Known int // sessions in memory
	Ended int // requests that waited with a session when it was revoked, or ended, since New
}

// Counts returns the sizes now.
func (c *Credentials) Counts() Counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Counts{Known: c.valid.Len(), Ended: c.ended}
}

// Accepts reports whether a credential has the form of a session's token.
func (c *Credentials) Accepts(credential string) bool { return c.o.Service.Accepts(credential) }

// Knows reports whether a credential's session is in memory, or can't exist.
func (c *Credentials) Knows(credential string) bool {
	of, ok := c.o.Service.Parse(credential)
	return !ok || c.find(of) != nil
}

// Authenticate returns the user of a session, and renews the session if that is due. Errors:
// access.ErrInvalidCredential, and those of the storage.
func (c *Credentials) Authenticate(ctx context.Context, credential string) (*access.Principal, error) {
	of, ok := c.o.Service.Parse(credential)
	if !ok {
		return nil, access.ErrInvalidCredential
	}
	k := c.find(of)
	if k == nil {
		found, err := c.load(ctx, of)
		switch {
		case errors.Is(err, sessions.ErrNotFound):
			return nil, access.ErrInvalidCredential.WithCause(err)
		case err != nil:
			return nil, err
		}
		k = found
	}
	if c.isDue(k) {
		if err := c.touch(ctx, k); err != nil {
			return nil, err
		}
	}
	return k.principal, nil
}

// find returns a session in memory, or nil if it must be read.
func (c *Credentials) find(of sessions.Ref) *known {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, _ := c.valid.Get(of)
	return k
}

// readTries is the number of reads of a session that changes during each of them.
const readTries = 3

// load reads a session until it doesn't change meanwhile, and keeps it. A session that changes during every read isn't
// kept.
func (c *Credentials) load(ctx context.Context, of sessions.Ref) (*known, error) {
	for try := 1; ; try++ {
		end := c.beginRead(of)
		s, err := c.o.Tracker.Read(ctx, of)
		c.mu.Lock()
		fresh := end()
		switch ended := errors.Is(err, sessions.ErrNotFound); {
		case err != nil && !ended:
			c.mu.Unlock()
			return nil, err
		case !fresh && c.running && try < readTries:
			c.mu.Unlock()
			continue
		case ended:
			c.forget(of)
			c.mu.Unlock()
			return nil, err
		}
		k := c.keep(of, s, fresh)
		c.mu.Unlock()
		return k, nil
	}
}

// forget marks a session as ended.
func (c *Credentials) forget(of sessions.Ref) {
	for _, k := range c.held[of] {
		k.ended.Store(true)
		c.ended += k.waits
	}
	delete(c.held, of)
	delete(c.doubted, of)
	c.valid.Remove(of)
	if c.ended > c.reported {
		pace.Signal(c.wake)
	}
}

// beginRead counts a read. end, which is called with c.mu held, reports whether the result may be kept.
func (c *Credentials) beginRead(of sessions.Ref) (end func() (fresh bool)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.reading[of]
	if r == nil {
		r = &reads{}
		c.reading[of] = r
	}
	r.running++
	running, losses, changes := c.running, c.losses, r.changes
	return func() bool {
		if r.running--; r.running == 0 {
			delete(c.reading, of)
		}
		return running && c.running && losses == c.losses && changes == r.changes
	}
}

// keep returns the session that was read, and keeps it if it is fresh, and isn't about to end: the storage may report
// an end late. Requests that wait with it already share it.
func (c *Credentials) keep(of sessions.Ref, s sessions.Session, fresh bool) *known {
	all := c.held[of]
	if len(all) == 0 {
		k, ok := c.valid.Peek(of)
		if !ok {
			k = c.newKnown(of, s)
		}
		all = []*known{k}
	}
	for _, k := range all {
		k.update(s, c.o.Service.Rules().TTL)
	}
	switch ending := !s.Expires.IsZero() && time.Until(s.Expires) < retryAfter; {
	case ending:
	case fresh:
		c.valid.Add(of, all[0])
		delete(c.doubted, of)
	case !c.o.Tracker.Tracks():
		delete(c.doubted, of) // until it is polled again
	}
	return all[0]
}

func (c *Credentials) newKnown(of sessions.Ref, s sessions.Session) *known {
	k := &known{of: of, by: c}
	k.principal = &access.Principal{
		Kind: access.Session, Subject: of.User, Credential: of.ID, Issued: s.Created, Grants: c.o.Grants, Origin: k,
	}
	return k
}

// update stores the session that was read.
func (k *known) update(s sessions.Session, ttl time.Duration) {
	ends := s.Expires
	if ends.IsZero() {
		ends = s.LastActivity.Add(ttl)
	}
	k.ends.Store(ends.UnixMilli())
	k.active.Store(s.LastActivity.Unix())
}

// isDue reports whether a session must be renewed by this caller.
func (c *Credentials) isDue(k *known) bool {
	last := max(k.active.Load(), k.touched.Load())
	if time.Now().Unix() < c.pausedUntil.Load() {
		return false
	}
	return time.Since(time.Unix(last, 0)) >= c.renew && k.touching.CompareAndSwap(false, true)
}

// touch renews a session. If that fails, the session remains valid until its end, isn't renewed again before c.renew has
// passed if it is kept in memory, and for a while none is: while the storage can't write, requests don't wait for it.
func (c *Credentials) touch(ctx context.Context, k *known) error {
	k.touched.Store(time.Now().Unix())
	defer k.touching.Store(false)
	s, err := c.o.Service.CheckRef(ctx, k.of)
	switch {
	case errors.Is(err, sessions.ErrNotFound):
		c.change(k.of)
		return access.ErrInvalidCredential
	case err != nil:
		c.pausedUntil.Store(time.Now().Add(renewalPause).Unix())
		c.o.Logger.WarnContext(ctx, "cannot renew a session", "error", err)
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	k.update(s, c.o.Service.Rules().TTL)
	return nil
}

// Ends returns when the session ends, unless it is renewed.
func (k *known) Ends() time.Time { return time.UnixMilli(k.ends.Load()) }

// Held keeps a session up to date while requests wait with it.
func (k *known) Held(waits int) {
	c := k.by
	c.mu.Lock()
	defer c.mu.Unlock()
	before := k.waits
	k.waits += waits
	switch {
	case k.ended.Load(): // it isn't listed any more
	case before == 0:
		c.held[k.of] = append(c.held[k.of], k)
		if now, _ := c.valid.Peek(k.of); c.o.Tracker.Tracks() && now != k {
			c.doubt(k.of) // it may have changed since it was read
		}
	case k.waits == 0:
		c.release(k)
	}
}

// release removes a session without waiting requests.
func (c *Credentials) release(k *known) {
	others := slices.DeleteFunc(c.held[k.of], func(other *known) bool { return other == k })
	if len(others) > 0 {
		c.held[k.of] = others
		return
	}
	delete(c.held, k.of)
	delete(c.doubted, k.of)
}

const (
	// readAtOnce is how many sessions are read again concurrently.
	readAtOnce = 1024
	// readTime limits the read of one session: on a Cluster the node of another session may answer.
	readTime = time.Second
	// pollEvery is how often sessions with which requests wait are read from a storage that doesn't report changes.
	pollEvery = 5 * time.Second
	// renewalPause is how long no session is renewed after one couldn't be.
	renewalPause = 5 * time.Second
	// retryAfter is the pause after a failure before the remaining sessions are read again.
	retryAfter = 250 * time.Millisecond
)

// Run keeps sessions in memory and ends requests that wait with sessions that are revoked, until ctx ends. It returns
// nil.
func (c *Credentials) Run(ctx context.Context) error {
	var doubtAll <-chan time.Time // of a storage that doesn't report changes
	if c.o.Tracker.Tracks() {
		defer c.o.Tracker.Listen(c.change, c.lose)()
		c.listen(true)
		defer c.listen(false)
	} else {
		ticker := time.NewTicker(pollEvery)
		defer ticker.Stop()
		doubtAll = ticker.C
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-doubtAll:
			c.lose()
			continue
		case <-c.wake:
		}
		if c.review(ctx) {
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(retryAfter):
			pace.Signal(c.wake)
		}
	}
}

// listen records whether changes are reported.
func (c *Credentials) listen(running bool) {
	c.mu.Lock()
	c.running = running
	c.mu.Unlock()
	c.lose()
}

// change removes a session that has changed from the memory.
func (c *Credentials) change(of sessions.Ref) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.valid.Remove(of)
	if r := c.reading[of]; r != nil {
		r.changes++
	}
	if c.held[of] != nil {
		c.doubt(of)
	}
}

// lose clears the memory.
func (c *Credentials) lose() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.losses++
	c.valid.Purge()
	for of := range c.held {
		c.doubt(of)
	}
}

// doubt schedules a session to be read again by Run.
func (c *Credentials) doubt(of sessions.Ref) {
	c.doubted[of] = struct{}{}
	pace.Signal(c.wake)
}

// review reads the doubted sessions again, and notifies listeners of ended ones. It reports whether no doubted session
// is left.
func (c *Credentials) review(ctx context.Context) bool {
	c.mu.Lock()
	doubted := slices.Collect(maps.Keys(c.doubted))
	c.mu.Unlock()
	var g errgroup.Group
	g.SetLimit(readAtOnce)
	for _, of := range doubted {
		g.Go(func() error {
			c.reread(ctx, of)
			return nil
		})
	}
	_ = g.Wait() // no function returns an error
	c.mu.Lock()
	news := c.ended > c.reported
	c.reported = c.ended
	remaining := slices.ContainsFunc(doubted, func(of sessions.Ref) bool {
		_, ok := c.doubted[of]
		return ok
	})
	c.mu.Unlock()
	if news {
		c.notify()
	}
	return !remaining
}

// reread reads a doubted session again. It stays doubted if that fails.
func (c *Credentials) reread(ctx context.Context, of sessions.Ref) {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	_, _ = c.load(ctx, of)
}

// Revoked reports whether the session of a principal was revoked, or has ended. It only reads memory.
func (c *Credentials) Revoked(p *access.Principal) bool {
	k, ok := p.Origin.(*known)
	return ok && k.by == c && k.ended.Load()
}

// Notify calls f after sessions with which requests wait were revoked, until stop is called.
func (c *Credentials) Notify(f func()) (stop func()) {
	c.listening.Lock()
	defer c.listening.Unlock()
	c.listeners[&f] = struct{}{}
	return func() {
		c.listening.Lock()
		defer c.listening.Unlock()
		delete(c.listeners, &f)
	}
}

func (c *Credentials) notify() {
	c.listening.Lock()
	listeners := slices.Collect(maps.Keys(c.listeners))
	c.listening.Unlock()
	for _, f := range listeners {
		(*f)()
	}
}
