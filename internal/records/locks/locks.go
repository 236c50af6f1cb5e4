package locks

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"time"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/lease"
)

// The time to live of a lock.
const (
	MinTTL     = time.Second
	DefaultTTL = 30 * time.Second
	MaxTTL     = time.Hour
)

// TokenPattern is the regular expression for tokens chosen by callers.
const TokenPattern = `^[0-9A-Za-z_.:-]{16,128}$` //nolint:gosec // it is no credential

var tokenPattern = regexp.MustCompile(TokenPattern)

// ErrLost is the error of a renewal or a release by a token that doesn't hold the lock, or holds it no longer.
var ErrLost = &fault.Error{
	Kind: fault.Conflict, Slug: fault.SlugLockLost,
	Detail: "the token doesn't hold the lock: it has ended, or it never did",
}

// Store keeps locks, as leases. Their names are the keys of kind records.Lock.
type Store interface {
	// Grant grants a lock to r.Token until r.TTL from now, with a fence that is higher than that of every earlier
	// holder. A repeat for the token that holds it renews it. Errors: *lease.HeldError. After any other the lock may
	// have been granted.
	Grant(ctx context.Context, r lease.Request) (lease.Holding, error)
	// Prolong renews a lock. Errors: lease.ErrLost.
	Prolong(ctx context.Context, r lease.Request) (lease.Holding, error)
	// Release ends a lock. A repeat succeeds unless another holder has had it since. Errors: lease.ErrLost.
	Release(ctx context.Context, name, token string) error
	// Show returns the last fence, if one is known, and until when the lock is held.
	Show(ctx context.Context, name string) (lease.Holding, error)
	lease.Watcher
}

// Name identifies a lock.
type Name struct {
	Op, ID string // an operation, and the entity that it is done to
}

func (n Name) check() error { return cmp.Or(records.CheckID("op", n.Op), records.CheckID("id", n.ID)) }

func (n Name) key() string { return records.LockKind.Key(n.Op, n.ID) }

// Request is a request to acquire or renew a lock.
type Request struct {
	Name
	Token string        // of the holder, or to be; "": Acquire makes one
	TTL   time.Duration // 0: that of the operation
	Wait  time.Duration // how long Acquire waits if another holds the lock; 0: not at all
}

// Lock is a lock that was granted.
type Lock struct {
	Token string
	lease.Holding
}

// Outcome is the result of a call for a lock.
type Outcome string

// The outcomes.
const (
	Acquired Outcome = "acquired"
	Held     Outcome = "held" // by another, also at the end of a wait
	Lost     Outcome = "lost" // a renewal or a release by a token that doesn't hold the lock
)

// Metrics counts outcomes.
type Metrics interface {
	Lock(o Outcome)
}

type noMetrics struct{}

func (noMetrics) Lock(Outcome) {}

// Options configures a Service.
type Options struct {
	Store      Store
	Operations Operations
	MaxWait    time.Duration // the longest Wait
	Metrics    Metrics       // nil: nothing is counted
}

// Service grants locks. Any number of goroutines may use it.
type Service struct {
	o    Options
	line lease.Line

	mu      sync.Mutex
	drained bool
	waits   map[*context.CancelCauseFunc]struct{}
}

// New returns the locks of a store.
func New(o Options) *Service {
	if o.Metrics == nil {
		o.Metrics = noMetrics{}
	}
	return &Service{o: o, waits: map[*context.CancelCauseFunc]struct{}{}}
}

// Acquire grants a lock. With a token that the caller has chosen and uses for this lock only once, a repeat after a
// lost answer is the same grant. If the token was generated here and the caller disconnects before the answer, the lock
// is released. Errors: fault.SlugInvalidID, ErrNoOperation, fault.SlugInvalidLock, fault.SlugInvalidWait,
// fault.SlugLockHeld with the time until it may become free, and the store's.
func (s *Service) Acquire(ctx context.Context, r Request) (Lock, error) {
	if err := s.check(&r, true); err != nil {
		return Lock{}, err
	}
	own := r.Token == ""
	if own {
		r.Token = "tml_" + rand.Text()
	}
	asked := lease.Request{Name: r.key(), Token: hash(r.Token), TTL: r.TTL}
	h, err := s.o.Store.Grant(ctx, asked)
	if errors.Is(err, lease.ErrHeld) && r.Wait > 0 {
		h, err = s.wait(ctx, asked, r.Wait)
	}
	var held *lease.HeldError
	switch {
	case errors.As(err, &held):
		s.o.Metrics.Lock(Held)
		return Lock{}, heldFor(held.For)
	case err == nil && ctx.Err() != nil:
		err = ctx.Err() // the caller has disconnected
	}
	if err != nil {
		if own && !errors.Is(err, errGone) {
			s.abandon(ctx, asked)
		}
		return Lock{}, fmt.Errorf("lock %s/%s: %w", r.Op, r.ID, err)
	}
	s.o.Metrics.Lock(Acquired)
	return Lock{Token: r.Token, Holding: h}, nil
}

// check refuses a request that isn't allowed, and sets its TTL. known requires that the site has the operation.
func (s *Service) check(r *Request, known bool) error {
	if err := r.check(); err != nil {
		return err
	}
	of, ok := s.o.Operations.find(r.Op)
	r.TTL = cmp.Or(r.TTL, of.TTL)
	switch {
	case known && !ok:
		return ErrNoOperation
	case r.TTL < MinTTL || r.TTL > of.MaxTTL:
		return invalid(fault.SlugInvalidLock, "/ttl", "ttl is %s, it must be from %s to %s", r.TTL, MinTTL, of.MaxTTL)
	case r.Wait < 0 || r.Wait > s.o.MaxWait:
		return invalid(fault.SlugInvalidWait, "/wait", "wait is %s, it must be from 0s to %s", r.Wait, s.o.MaxWait)
	case r.Token != "" && !tokenPattern.MatchString(r.Token):
		return invalid(fault.SlugInvalidLock, "/token", "the token must match %s", TokenPattern)
	}
	return nil
}

func invalid(slug fault.Slug, field, format string, values ...any) error {
	return &fault.Error{Kind: fault.Invalid, Slug: slug, Field: field, Detail: fmt.Sprintf(format, values...)}
}

// heldFor returns the error for a lock that another token holds.
func heldFor(d time.Duration) error {
	return &fault.Error{
		Kind: fault.Conflict, Slug: fault.SlugLockHeld, RetryAfter: max(d, time.Second),
		Detail: fmt.Sprintf("the lock is held for at most %s, unless its holder renews it", d.Round(time.Millisecond)),
	}
}

var (
	errWaited = errors.New("waited for as long as it may")
	errGone   = errors.New("the caller went away while another held the lock")
)

// wait requests a lock whenever it may have become free, and once more at the end of the wait.
func (s *Service) wait(ctx context.Context, r lease.Request, longest time.Duration) (h lease.Holding, err error) {
	waiting, done := s.begin(ctx, longest)
	defer done()
	held := true
	err = s.line.Wait(waiting, s.o.Store, r, func(context.Context) (err error) {
		h, err = s.o.Store.Grant(ctx, r) // not canceled by the end of the wait
		held = errors.Is(err, lease.ErrHeld)
		return err
	})
	switch {
	case held && errors.Is(err, errWaited):
		return s.o.Store.Grant(ctx, r)
	case held:
		return h, errors.Join(errGone, err)
	}
	return h, err
}

// begin returns a context for a wait, which ends with errWaited as its cause.
func (s *Service) begin(ctx context.Context, longest time.Duration) (waiting context.Context, done func()) {
	ctx, stop := context.WithTimeoutCause(ctx, longest, errWaited)
	waiting, end := context.WithCancelCause(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.drained {
		end(errWaited)
	}
	s.waits[&end] = struct{}{}
	return waiting, func() {
		s.mu.Lock()
		delete(s.waits, &end)
		s.mu.Unlock()
		end(nil)
		stop()
	}
}

// Drain ends all waits; later calls don't wait, until Resume. It may be called several times and at any time.
func (s *Service) Drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drained = true
	for end := range s.waits {
		(*end)(errWaited)
	}
}

// Resume lets calls wait again after Drain.
func (s *Service) Resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drained = false
}

// Waiting returns the number of calls waiting for a lock.
func (s *Service) Waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waits)
}

// releaseTimeout bounds the release of an unused lock.
const releaseTimeout = time.Second

// abandon releases a lock that may have been granted without the caller's knowledge. If that fails, the lock expires.
func (s *Service) abandon(ctx context.Context, r lease.Request) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	_ = s.o.Store.Release(ctx, r.Name, r.Token)
}

// Renew prolongs a lock that r.Token holds. An operation that the site doesn't have any more has the default lives.
// Errors: fault.SlugInvalidID, fault.SlugInvalidLock, ErrLost and the store's.
func (s *Service) Renew(ctx context.Context, r Request) (Lock, error) {
	if err := s.check(&r, false); err != nil {
		return Lock{}, err
	}
	h, err := s.o.Store.Prolong(ctx, lease.Request{Name: r.key(), Token: hash(r.Token), TTL: r.TTL})
	return Lock{Token: r.Token, Holding: h}, s.lost(r.Name, err)
}

// Release ends a lock. A repeat succeeds unless another holder has had the lock since. Errors: fault.SlugInvalidID,
// ErrLost and the store's.
func (s *Service) Release(ctx context.Context, n Name, token string) error {
	if err := n.check(); err != nil {
		return err
	}
	return s.lost(n, s.o.Store.Release(ctx, n.key(), hash(token)))
}

func (s *Service) lost(n Name, err error) error {
	switch {
	case errors.Is(err, lease.ErrLost):
		s.o.Metrics.Lock(Lost)
		return ErrLost
	case err != nil:
		return fmt.Errorf("lock %s/%s: %w", n.Op, n.ID, err)
	}
	return nil
}

// Show returns the last fence of a lock, if one is known, and until when it is held. Errors: fault.SlugInvalidID and
// the store's.
func (s *Service) Show(ctx context.Context, n Name) (lease.Holding, error) {
	if err := n.check(); err != nil {
		return lease.Holding{}, err
	}
	h, err := s.o.Store.Show(ctx, n.key())
	return h, s.lost(n, err)
}

// hash returns the form in which Redis stores a token.
func hash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
