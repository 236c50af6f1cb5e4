package access

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/access"
	accesskeys "github.com/tidemark-dev/tidemark/internal/access/keys"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

// startServer returns the keys of a server, kept up to date until the test ends.
func startServer(t *testing.T, o redis.Options) *accesskeys.Registry {
	t.Helper()
	r := loadServer(t, o)
	run(t, r)
	return r
}

// loadServer returns the keys of a server, which aren't kept up to date.
func loadServer(t *testing.T, o redis.Options) *accesskeys.Registry {
	t.Helper()
	r, err := accesskeys.New(accesskeys.Options{Store: New(storetest.Connect(t, o)),
		Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	require.NoError(t, r.Refresh(t.Context()))
	return r
}

// run keeps the keys of a server up to date until the test ends.
func run(t *testing.T, r *accesskeys.Registry) {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-done)
	})
}

var grants = []byte(`[{"actions":["publish"]}]`)

func newKey(t *testing.T, r *accesskeys.Registry) (id, text string) {
	t.Helper()
	k, text, err := r.Create(t.Context(), accesskeys.NewKey{Grants: grants})
	require.NoError(t, err)
	return k.ID, text
}

func accepts(t *testing.T, r *accesskeys.Registry, text string) bool {
	t.Helper()
	_, err := r.Authenticate(t.Context(), text)
	return err == nil
}

func ann() *access.Principal { return &access.Principal{Kind: access.User, Subject: "ann"} }

// TestEveryServerKnowsARevocation: servers on one Redis, one of which is never notified, all apply a revocation. It
// logs the time.
func TestEveryServerKnowsARevocation(t *testing.T) {
	t.Parallel()
	node, prefix := redistest.Standalone(t), redistest.Prefix(t)
	cut := redistest.NewProxy(t, node)
	cut.Fail(func(command []string) string {
		if command[0] == "SSUBSCRIBE" {
			return "ERR cut"
		}
		return ""
	})
	answers := startServer(t, redis.Options{URL: node.URL(), KeyPrefix: prefix})
	servers := []*accesskeys.Registry{ // the second one isn't notified
		startServer(t, redis.Options{URL: node.URL(), KeyPrefix: prefix}),
		startServer(t, redis.Options{URL: cut.Addr(), KeyPrefix: prefix}),
	}
	longest := make([]time.Duration, len(servers))
	within := func(what string, check func(*accesskeys.Registry) bool) {
		t.Helper()
		started := time.Now()
		for i, r := range servers {
			storetest.WaitFor(t, what, func() bool { return check(r) })
			longest[i] = max(longest[i], time.Since(started))
		}
	}
	for range 10 {
		id, text := newKey(t, answers)
		require.True(t, accepts(t, answers, text))
		within("the key to be known", func(r *accesskeys.Registry) bool { return accepts(t, r, text) })
		require.NoError(t, answers.Delete(t.Context(), id))
		require.False(t, accepts(t, answers, text), "before the answer")
		within("the deletion to be known", func(r *accesskeys.Registry) bool { return !accepts(t, r, text) })
	}
	_, err := answers.Revoke(t.Context(), accesskeys.Revocation{Kind: accesskeys.RevokedSubject, Name: "ann"})
	require.NoError(t, err)
	require.True(t, answers.Revoked(ann()))
	within("the revocation to be known", func(r *accesskeys.Registry) bool { return r.Revoked(ann()) })
	t.Logf("known after at most %v, and without notifications %v", longest[0], longest[1])
	for _, r := range servers {
		require.LessOrEqual(t, r.Counts().Loads, 2, "only changes are read")
	}
}

// TestARevocationThatIsLost: a fail-over loses the latest writes, since the replica lags. The servers that knew the
// revocation restore it, so that a server that starts later knows it, too. Lost keys stay lost. The loss happens before
// the server that answered has read its own change.
func TestARevocationThatIsLost(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.Options{})
	o := redis.Options{URL: strings.Join(cluster.Addrs(), ","), Timeout: time.Minute}
	answers, other := loadServer(t, o), startServer(t, o)
	id, deleted := newKey(t, answers)
	_, kept := newKey(t, answers)
	require.NoError(t, answers.Refresh(t.Context()))
	storetest.WaitFor(t, "the keys to be known", func() bool {
		return accepts(t, other, deleted) &&
			accepts(t, other, kept)
	})
	conn := storetest.Connect(t, o)
	last := conn.Client().B().Get().Key(New(conn).keys.changes()).Build()
	var lost string
	cluster.FailoverThatLoses(t, last.Slot(), func() {
		require.NoError(t, answers.Delete(t.Context(), id))
		_, err := answers.Revoke(t.Context(), accesskeys.Revocation{Kind: accesskeys.RevokedSubject, Name: "ann"})
		require.NoError(t, err)
		_, lost = newKey(t, answers)
		storetest.WaitFor(t, "it to be known although the replica hasn't got it", func() bool {
			return other.Revoked(ann()) && !accepts(t, other, deleted) && accepts(t, other, lost)
		})
	})
	run(t, answers)
	storetest.WaitFor(t, "the loss to be noticed", func() bool {
		return !accepts(t, answers, lost) &&
			!accepts(t, other, lost)
	})
	storetest.WaitFor(t, "a new server to know the revocations", func() bool {
		later := startServer(t, o)
		return later.Revoked(ann()) && !accepts(t, later, deleted) && accepts(t, later, kept)
	})
	for _, r := range []*accesskeys.Registry{answers, other} {
		require.True(t, r.Revoked(ann()) && !accepts(t, r, deleted) && accepts(t, r, kept), "all the time")
	}
}

// TestCostOfAServer counts the commands of a server while nothing changes, and while requests are checked.
func TestCostOfAServer(t *testing.T) {
	t.Parallel()
	m := storetest.NewMeter(t, redistest.Options{})
	store := New(m.Conn)
	r, err := accesskeys.New(accesskeys.Options{Store: store, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	_, text := newKey(t, r)
	require.NoError(t, r.Refresh(t.Context()))
	m.Reset(t)
	for range 100 {
		require.True(t, accepts(t, r, text))
		require.NoError(t, r.Refresh(t.Context()))
	}
	require.Equal(t, map[string]int{"xrevrange": 100}, m.Stats(t))
}

func BenchmarkRevoke(b *testing.B) {
	conn, _ := storetest.Standalone(b)
	r, err := accesskeys.New(accesskeys.Options{Store: New(conn), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(b, err)
	for b.Loop() {
		_, err := r.Revoke(b.Context(), accesskeys.Revocation{Kind: accesskeys.RevokedSubject, Name: "ann"})
		require.NoError(b, err)
	}
}
