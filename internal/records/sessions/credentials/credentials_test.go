package credentials_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/records/sessions"
	"github.com/tidemark-dev/tidemark/internal/records/sessions/credentials"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const ttl = 100 * time.Hour

// storage has sessions by their tokens, which are "s:" and the user. It is the Service and the Tracker.
type storage struct {
	mu       sync.Mutex
	sessions map[string]sessions.Session // by user
	reads    int
	checks   int
	err      error
	reading  func() // is called while a session is read
	silent   bool   // changes aren't reported
	changed  func(of sessions.Ref)
	lost     func()
}

func (s *storage) Accepts(token string) bool {
	_, ok := s.Parse(token)
	return ok
}

func (s *storage) Parse(token string) (sessions.Ref, bool) {
	user, ok := strings.CutPrefix(token, "s:")
	return sessions.Ref{User: user, ID: "id of " + user}, ok
}

func (s *storage) Rules() sessions.Rules { return sessions.Rules{TTL: ttl} }

func (s *storage) CheckRef(_ context.Context, of sessions.Ref) (sessions.Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.checks++
	found, ok := s.sessions[of.User]
	switch {
	case s.err != nil:
		return sessions.Session{}, s.err
	case !ok:
		return sessions.Session{}, sessions.ErrNotFound
	}
	if time.Since(found.LastActivity) >= s.Rules().RenewAfter() {
		found.LastActivity = time.Now()
		s.sessions[of.User] = found
	}
	return found, nil
}

func (s *storage) Read(_ context.Context, of sessions.Ref) (sessions.Session, error) {
	s.mu.Lock()
	s.reads++
	found, ok := s.sessions[of.User]
	err, reading := s.err, s.reading
	s.mu.Unlock()
	if reading != nil {
		reading()
	}
	if err != nil {
		return sessions.Session{}, err
	}
	if !ok {
		return sessions.Session{}, sessions.ErrNotFound
	}
	return found, nil
}

func (s *storage) Tracks() bool { return !s.silent }

func (s *storage) Listen(changed func(of sessions.Ref), lost func()) (stop func()) {
	s.changed, s.lost = changed, lost
	return func() {}
}

// set creates a session, or ends it if active is zero, and reports the change unless the connection is lost.
func (s *storage) set(user string, active time.Time) {
	s.mu.Lock()
	s.sessions[user] = sessions.Session{User: user, ID: "id of " + user, Created: time.Unix(1_000_000, 0),
		LastActivity: active}
	if active.IsZero() {
		delete(s.sessions, user)
	}
	s.mu.Unlock()
	if !s.silent {
		s.changed(sessions.Ref{User: user, ID: "id of " + user})
	}
}

// count returns the number of reads.
func (s *storage) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reads
}

func (s *storage) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// rig is a guard with credentials of sessions.
type rig struct {
	*storage
	cached *credentials.Credentials
	guard  *access.Guard
}

// run runs a test in a bubble, with a guard whose credentials are kept up to date.
func run(t *testing.T, test func(t *testing.T, r *rig)) {
	t.Helper()
	runOn(t, &storage{}, test)
}

// runOn is run with a storage without sessions.
func runOn(t *testing.T, s *storage, test func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s.sessions = map[string]sessions.Session{}
		grants, err := access.ParseGrants([]byte(`[{"actions":["subscribe"],"channels":["notifications:{sub}"]}]`))
		require.NoError(t, err)
		cached := credentials.New(credentials.Options{Service: s, Tracker: s, Grants: grants,
			Logger: slog.New(slog.DiscardHandler)})
		guard, err := access.New(access.Options{Authenticators: []access.Authenticator{cached}, Revoked: cached})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- cached.Run(ctx) }()
		defer func() {
			stop()
			require.NoError(t, <-done)
		}()
		synctest.Wait() // it listens
		test(t, &rig{storage: s, cached: cached, guard: guard})
	})
}

func (r *rig) login(t *testing.T, token string) *access.Principal {
	t.Helper()
	p, err := r.guard.Authenticate(t.Context(), token)
	require.NoError(t, err)
	return p
}

func (r *rig) refused(t *testing.T, token string, want error) {
	t.Helper()
	_, err := r.guard.Authenticate(t.Context(), token)
	require.ErrorIs(t, err, want)
}

func (r *rig) hold(t *testing.T, token string) context.Context {
	t.Helper()
	held, stop := r.guard.Hold(t.Context(), r.login(t, token))
	t.Cleanup(stop)
	return held
}

// TestPrincipal: a session is read once, and its user has the permissions of sessions.
func TestPrincipal(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, r *rig) {
		r.set("ann", time.Now())
		require.False(t, r.cached.Knows("s:ann"))
		p := r.login(t, "s:ann")
		for range 10 {
			require.Same(t, p, r.login(t, "s:ann"))
		}
		require.Equal(t, [2]int{1, 0}, [2]int{r.reads, r.checks}, "later requests ask nobody")
		require.True(t, r.cached.Knows("s:ann"))
		require.Equal(t, "user:ann", p.Name())
		require.Equal(t, access.Session, p.Kind)
		require.Equal(t, "id of ann", p.Credential)
		require.Equal(t, time.Unix(1_000_000, 0), p.Issued)
		require.NoError(t, r.guard.Check(t.Context(), p, access.Subscribe, access.Resource{Channel: "notifications:ann",
			Subscriber: "ann:phone"}))
		require.ErrorIs(t, r.guard.Check(t.Context(), p, access.Subscribe, access.Resource{Channel: "notifications:bob",
			Subscriber: "ann"}), access.ErrNotGranted)
		r.refused(t, "s:bob", access.ErrInvalidCredential)
		r.refused(t, "x", access.ErrInvalidCredential)
		r.set("anonymous", time.Now())
		r.refused(t, "s:anonymous", access.ErrInvalidCredential)
	})
}

// TestRevocation: requests that wait with a session end with it, and no others.
func TestRevocation(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, r *rig) {
		r.set("ann", time.Now())
		r.set("bob", time.Now())
		ann, other, bob := r.hold(t, "s:ann"), r.hold(t, "s:ann"), r.hold(t, "s:bob")
		r.set("ann", time.Now()) // another server renews it
		synctest.Wait()
		require.NoError(t, ann.Err())
		r.set("ann", time.Time{})
		synctest.Wait()
		require.ErrorIs(t, context.Cause(ann), access.ErrRevoked)
		require.ErrorIs(t, context.Cause(other), access.ErrRevoked)
		require.NoError(t, bob.Err())
		r.refused(t, "s:ann", access.ErrInvalidCredential)
		r.set("ann", time.Now())
		first, stop := r.guard.Hold(t.Context(), r.login(t, "s:ann"))
		r.set("ann", time.Time{})
		synctest.Wait()
		require.ErrorIs(t, context.Cause(first), access.ErrRevoked)
		r.set("ann", time.Now())
		later := r.hold(t, "s:ann") // another session with the same token
		stop()
		require.NoError(t, later.Err())
		r.set("ann", time.Time{})
		synctest.Wait()
		require.ErrorIs(t, context.Cause(later), access.ErrRevoked)
		require.Equal(t, credentials.Counts{Known: 1, Ended: 4}, r.cached.Counts())
	})
}

// TestRevokedMeanwhile: a session that ends while it is read, or between its authentication and the wait, is detected.
func TestRevokedMeanwhile(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, r *rig) {
		r.set("ann", time.Now())
		r.reading = sync.OnceFunc(func() { r.set("ann", time.Time{}) })
		r.refused(t, "s:ann", access.ErrInvalidCredential)

		r.set("bob", time.Now())
		p := r.login(t, "s:bob")
		r.set("bob", time.Time{})
		held, stop := r.guard.Hold(t.Context(), p)
		defer stop()
		synctest.Wait()
		require.ErrorIs(t, context.Cause(held), access.ErrRevoked)

		r.reading = func() { // it changes all the time
			r.changed(sessions.Ref{User: "cay", ID: "id of cay"})
		}
		r.set("cay", time.Now())
		cay := r.hold(t, "s:cay")
		require.False(t, r.cached.Knows("s:cay"))
		r.mu.Lock()
		delete(r.sessions, "cay")
		r.mu.Unlock()
		<-cay.Done()
		require.ErrorIs(t, context.Cause(cay), access.ErrRevoked, "it is read until it doesn't change")
	})
}

// TestStorageWithoutReports: each request reads its session, and those that wait end some seconds after their session.
func TestStorageWithoutReports(t *testing.T) {
	t.Parallel()
	runOn(t, &storage{silent: true}, func(t *testing.T, r *rig) {
		r.set("ann", time.Now())
		r.set("bob", time.Now())
		ann, bob := r.hold(t, "s:ann"), r.hold(t, "s:bob")
		synctest.Wait()
		before := r.count()
		<-time.After(time.Minute)
		require.LessOrEqual(t, r.count()-before, 2*13, "a read of each every five seconds")
		r.set("ann", time.Time{})
		r.refused(t, "s:ann", access.ErrInvalidCredential)
		<-ann.Done()
		require.ErrorIs(t, context.Cause(ann), access.ErrRevoked)
		require.NoError(t, bob.Err())
		require.Zero(t, r.cached.Counts().Known)
	})
}

// TestLostConnection: after changes may have been missed, everything is read again: sessions with waiting requests as
// soon as that is possible.
func TestLostConnection(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, r *rig) {
		r.set("ann", time.Now())
		r.set("bob", time.Now())
		ann, bob := r.hold(t, "s:ann"), r.hold(t, "s:bob")
		tell := r.changed
		r.changed = func(sessions.Ref) {} // the connection is lost
		r.set("ann", time.Time{})
		synctest.Wait()
		require.NoError(t, ann.Err())
		r.fail(fault.ErrUnavailable)
		r.lost()
		synctest.Wait()
		require.NoError(t, ann.Err(), "nobody knows")
		r.refused(t, "s:bob", fault.ErrUnavailable)
		require.False(t, r.cached.Knows("s:bob"))
		began := time.Now()
		r.fail(nil)
		<-ann.Done()
		require.Less(t, time.Since(began), time.Second)
		require.ErrorIs(t, context.Cause(ann), access.ErrRevoked)
		require.NoError(t, bob.Err())
		reads := r.reads
		r.changed = tell
		r.login(t, "s:bob")
		require.Equal(t, reads, r.reads, "it was read again already")
	})
}

// TestRenewal: a session is renewed by use, and ends without use.
func TestRenewal(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, r *rig) {
		r.set("ann", time.Now())
		held := r.hold(t, "s:ann")
		<-time.After(50 * time.Second)
		r.login(t, "s:ann")
		require.Zero(t, r.checks)
		<-time.After(20 * time.Second)
		r.login(t, "s:ann")
		r.login(t, "s:ann")
		require.Equal(t, 1, r.checks, "once a minute")
		<-time.After(11 * time.Hour)
		r.fail(fault.ErrUnavailable)
		r.login(t, "s:ann") // it is valid although it can't be renewed
		r.login(t, "s:ann")
		require.Equal(t, 2, r.checks, "not each request tries again")
		r.fail(nil)
		began := time.Now()
		<-held.Done()
		require.ErrorIs(t, context.Cause(held), access.ErrExpired)
		require.Equal(t, ttl-11*time.Hour, time.Since(began))
		r.login(t, "s:ann") // it is the storage that decides
		r.set("ann", time.Time{})
		r.refused(t, "s:ann", access.ErrInvalidCredential)
	})
}

// TestMemory: sessions without waiting requests are evicted if there are too many, and revocations of the others are
// detected.
func TestMemory(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, r *rig) {
		r.set("ann", time.Now())
		r.set("bob", time.Now())
		held, early := r.hold(t, "s:ann"), r.login(t, "s:bob")
		for n := range 20_001 {
			user := strings.Repeat("x", n%100) + string(rune('Ā'+n/100))
			r.sessions[user] = sessions.Session{User: user, LastActivity: time.Now()}
			r.login(t, "s:"+user)
		}
		require.False(t, r.cached.Knows("s:bob"))
		r.set("ann", time.Time{})
		r.set("bob", time.Time{})
		synctest.Wait()
		require.ErrorIs(t, context.Cause(held), access.ErrRevoked)
		late, stop := r.guard.Hold(t.Context(), early)
		defer stop()
		synctest.Wait()
		require.ErrorIs(t, context.Cause(late), access.ErrRevoked)
	})
}

// TestEndThatIsReportedLate: a session near its end is read from the storage until it has ended, as its end may be
// reported late.
func TestEndThatIsReportedLate(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, r *rig) {
		r.set("ann", time.Now())
		held := r.hold(t, "s:ann")
		r.mu.Lock()
		s := r.sessions["ann"]
		s.Expires = time.Now().Add(time.Millisecond)
		r.sessions["ann"] = s
		r.mu.Unlock()
		r.changed(sessions.Ref{User: "ann", ID: "id of ann"})
		synctest.Wait()
		require.NoError(t, held.Err())
		r.mu.Lock()
		delete(r.sessions, "ann")
		r.mu.Unlock()
		began := time.Now()
		<-held.Done()
		require.ErrorIs(t, context.Cause(held), access.ErrRevoked)
		require.Less(t, time.Since(began), time.Second)
	})
}
