package records

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/internal/records/sessions"
	"github.com/tidemark-dev/tidemark/internal/records/sessions/credentials"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/storage/redis/tracked"
	"github.com/tidemark-dev/tidemark/test/redistest"
	"github.com/tidemark-dev/tidemark/test/storagetest"
)

// server is the part of a server that handles sessions.
type server struct {
	service *sessions.Service
	cached  *credentials.Credentials
	guard   *access.Guard
}

func startServer(t *testing.T, o redis.Options) *server {
	t.Helper()
	conn := storetest.Connect(t, o)
	service, err := sessions.NewService(sessions.Options{Store: NewSessions(conn)})
	require.NoError(t, err)
	client, err := tracked.Open(t.Context(), conn, tracked.Options{})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	cached := credentials.New(credentials.Options{Service: service, Tracker: NewSessionTracker(conn, client),
		Logger: slog.New(slog.DiscardHandler)})
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- cached.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-done)
	})
	guard, err := access.New(access.Options{Authenticators: []access.Authenticator{cached}, Revoked: cached})
	require.NoError(t, err)
	return &server{service: service, cached: cached, guard: guard}
}

func (s *server) login(t *testing.T, user string) sessions.Issued {
	t.Helper()
	issued, err := s.service.Create(t.Context(), user, sessions.New{Username: "Ann"})
	require.NoError(t, err)
	return issued
}

// hold returns the context of a request that waits with a token.
func (s *server) hold(t *testing.T, token string) context.Context {
	t.Helper()
	p, err := s.guard.Authenticate(t.Context(), token)
	require.NoError(t, err)
	held, stop := s.guard.Hold(t.Context(), p)
	t.Cleanup(stop)
	return held
}

func (s *server) accepts(t *testing.T, token string) bool {
	t.Helper()
	_, err := s.guard.Authenticate(t.Context(), token)
	return err == nil
}

// requireEnded waits until a request has ended because of its credential.
func requireEnded(t *testing.T, held context.Context) {
	t.Helper()
	select {
	case <-held.Done():
		require.ErrorIs(t, context.Cause(held), access.ErrRevoked)
	case <-time.After(storetest.Patience):
		require.FailNow(t, "the request still waits")
	}
}

// TestRevocationOnEveryServer: requests that wait on any server end, in each way in which a session can end. It logs
// the delay.
func TestRevocationOnEveryServer(t *testing.T) {
	t.Parallel()
	storagetest.Each(t, func(t *testing.T, r storagetest.Redis) {
		o := redis.Options{URL: r.URL, KeyPrefix: redistest.Prefix(t)}
		first, other := startServer(t, o), startServer(t, o)
		direct := sessionsHarness{NewSessions(storetest.Connect(t, o))}
		for name, end := range map[string]func(t *testing.T, s sessions.Issued){
			"revoke": func(t *testing.T, s sessions.Issued) {
				require.NoError(t, first.service.Revoke(t.Context(), s.User, s.ID))
			},
			"revoke all": func(t *testing.T, s sessions.Issued) {
				require.NoError(t, storagetest.ErrorOf(first.service.RevokeAll(t.Context(), s.User)))
			},
			"rotate": func(t *testing.T, s sessions.Issued) {
				require.NoError(t, storagetest.ErrorOf(first.service.Rotate(t.Context(), s.Token, "")))
			},
			"expire": func(t *testing.T, s sessions.Issued) {
				require.NoError(t,
					storagetest.ErrorOf(direct.do(t.Context(), "PEXPIRE",
						direct.store.key(sessions.Ref{User: s.User, ID: s.ID}), "1")))
			},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				issued, kept := first.login(t, "ann "+name), first.login(t, "bob "+name)
				held := []context.Context{first.hold(t, issued.Token), other.hold(t, issued.Token)}
				stays := other.hold(t, kept.Token)
				began := time.Now()
				end(t, issued)
				for _, h := range held {
					requireEnded(t, h)
				}
				t.Logf("ended after %v", time.Since(began))
				require.False(t, first.accepts(t, issued.Token))
				require.False(t, other.accepts(t, issued.Token))
				require.NoError(t, stays.Err())
			})
		}
	})
}

// TestRevokedWhileAway: a server that has lost its connection to Redis detects a revocation after it reconnects.
func TestRevokedWhileAway(t *testing.T) {
	t.Parallel()
	node, prefix := redistest.Standalone(t), redistest.Prefix(t)
	proxy := redistest.NewProxy(t, node)
	server := startServer(t, redis.Options{URL: node.URL(), KeyPrefix: prefix})
	away := startServer(t, redis.Options{URL: proxy.Addr(), KeyPrefix: prefix})
	issued, kept := server.login(t, "ann"), server.login(t, "bob")
	held, stays := away.hold(t, issued.Token), away.hold(t, kept.Token)
	proxy.Refuse(true)
	proxy.Cut()
	require.NoError(t, server.service.Revoke(t.Context(), "ann", issued.ID))
	require.NoError(t, held.Err())
	began := time.Now()
	proxy.Refuse(false)
	requireEnded(t, held)
	t.Logf("ended %v after Redis could be reached again", time.Since(began))
	require.NoError(t, stays.Err())
	storetest.WaitFor(t, "the other session to be accepted", func() bool { return away.accepts(t, kept.Token) })
}

// TestRevokedAcrossAFailover: a revocation that a fail-over keeps stays in effect, and sessions that it lost are gone
// on every server.
func TestRevokedAcrossAFailover(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.Options{})
	o := redis.Options{URL: strings.Join(cluster.Addrs(), ","), Timeout: time.Minute}
	first, other := startServer(t, o), startServer(t, o)
	kept, revoked := first.login(t, "ann"), first.login(t, "ann")
	stays, ends := other.hold(t, kept.Token), other.hold(t, revoked.Token)
	require.NoError(t, first.service.Revoke(t.Context(), "ann", revoked.ID))
	requireEnded(t, ends)
	slot := cluster.Slot(records.UserSessionsKind.Key("ann"))
	var lost sessions.Issued
	var goes context.Context
	cluster.FailoverThatLoses(t, slot, func() {
		lost = first.login(t, "ann")
		goes = other.hold(t, lost.Token)
	})
	requireEnded(t, goes)
	require.NoError(t, stays.Err())
	storetest.WaitFor(t, "the session that was kept", func() bool {
		return other.accepts(t, kept.Token) &&
			first.accepts(t, kept.Token)
	})
	require.False(t, first.accepts(t, revoked.Token) || other.accepts(t, revoked.Token) || first.accepts(t, lost.Token))
}

// TestReading: each change of a session that was read is reported.
func TestReading(t *testing.T) {
	t.Parallel()
	conn, _ := storetest.Standalone(t)
	client, err := tracked.Open(t.Context(), conn, tracked.Options{})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	h, cache, changed := sessionsHarness{NewSessions(conn)}, NewSessionTracker(conn, client), make(chan sessions.Ref, 9)
	t.Cleanup(cache.Listen(func(of sessions.Ref) { changed <- of }, func() {}))
	require.ErrorIs(t, storagetest.ErrorOf(cache.Read(t.Context(), ref(1))), sessions.ErrNotFound)
	h.create(t, 1)
	require.Equal(t, ref(1), <-changed)
	read, err := cache.Read(t.Context(), ref(1))
	require.NoError(t, err)
	require.Equal(t, "Ann", read.Username)
	require.NoError(t, h.store.Revoke(t.Context(), ref(1)))
	require.Equal(t, ref(1), <-changed)
	require.ErrorIs(t, storagetest.ErrorOf(cache.Read(t.Context(), ref(1))), sessions.ErrNotFound)
}

// TestCostsOfCredentials: requests with a known session, and malformed tokens, send no commands, and a wait costs
// nothing.
func TestCostsOfCredentials(t *testing.T) {
	t.Parallel()
	m := storetest.NewMeter(t, redistest.Options{})
	s := startServer(t, redis.Options{URL: m.Node.URL()})
	issued := s.login(t, "ann")
	s.hold(t, issued.Token)
	storetest.WaitFor(t, "the session to be kept", func() bool { return s.cached.Knows(issued.Token) })
	m.Reset(t)
	for range 1000 {
		require.True(t, s.accepts(t, issued.Token))
		require.False(t, s.accepts(t, issued.Token[:40]))
		require.False(t, s.accepts(t, "tms_"+strings.Repeat("?", 50)))
	}
	require.Empty(t, m.Stats(t))
	require.False(t, s.accepts(t, "tms_"+strings.Repeat("A", 43)+"YW5u"))
	require.Equal(t, 1, m.Stats(t)["hgetall"])
}

func BenchmarkAuthenticate(b *testing.B) {
	conn, _ := storetest.Standalone(b)
	service, err := sessions.NewService(sessions.Options{Store: NewSessions(conn)})
	require.NoError(b, err)
	client, err := tracked.Open(b.Context(), conn, tracked.Options{})
	require.NoError(b, err)
	b.Cleanup(client.Close)
	cached := credentials.New(credentials.Options{Service: service, Tracker: NewSessionTracker(conn, client),
		Logger: slog.New(slog.DiscardHandler)})
	ctx, stop := context.WithCancel(context.WithoutCancel(b.Context()))
	done := make(chan error, 1)
	go func() { done <- cached.Run(ctx) }()
	b.Cleanup(func() {
		stop()
		require.NoError(b, <-done)
	})
	issued, err := service.Create(b.Context(), "ann", sessions.New{Username: "Ann"})
	require.NoError(b, err)
	storetest.WaitFor(b, "changes to be reported", func() bool {
		_, err := cached.Authenticate(b.Context(), issued.Token)
		require.NoError(b, err)
		return cached.Knows(issued.Token)
	})
	for b.Loop() {
		if _, err := cached.Authenticate(b.Context(), issued.Token); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	conn, _ := storetest.Standalone(b)
	service, err := sessions.NewService(sessions.Options{Store: NewSessions(conn)})
	require.NoError(b, err)
	issued, err := service.Create(b.Context(), "ann",
		sessions.New{Username: "Ann", Device: []byte(`{"agent":"Firefox"}`), AuthData: []byte(`{"role":"editor"}`)})
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := service.Check(b.Context(), issued.Token); err != nil {
			b.Fatal(err)
		}
	}
}

// TestTrackedPlainKeys: changes of sessions with plain keys are reported.
func TestTrackedPlainKeys(t *testing.T) {
	t.Parallel()
	conn := connectPlain(t)
	client, err := tracked.Open(t.Context(), conn, tracked.Options{})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	h, tracker, changed := sessionsHarness{NewSessions(conn)}, NewSessionTracker(conn, client), make(chan sessions.Ref, 9)
	defer tracker.Listen(func(of sessions.Ref) { changed <- of }, func() {})()
	h.create(t, 1)
	found, err := tracker.Read(t.Context(), ref(1))
	require.NoError(t, err)
	require.Equal(t, "Ann", found.Username)
	require.NoError(t, h.store.Revoke(t.Context(), ref(1)))
	select {
	case of := <-changed:
		require.Equal(t, ref(1), of)
	case <-time.After(storagetest.Patience):
		require.FailNow(t, "the revocation isn't reported")
	}
}
