// Package storetest is what the tests of the stores in Redis share: connections, a meter of the commands that an
// operation sends, a cluster whose slots move, calls that all must fail in the same way, and the tables of
// docs/redis-internals.md.
package storetest

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/redistest"
	"github.com/tidemark-dev/tidemark/storage/redis"
)

// Patience ends a wait for something that never comes. No test is timed by it.
const Patience = 30 * time.Second

// Connect connects to a Redis until the test ends.
func Connect(t testing.TB, o redis.Options) *redis.Conn {
	t.Helper()
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	conn, err := redis.Connect(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	return conn
}

// Standalone connects to the shared standalone Redis, under a prefix of its own.
func Standalone(t testing.TB) (*redis.Conn, *redistest.Node) {
	t.Helper()
	node := redistest.Standalone(t)
	return Connect(t, redis.Options{URL: node.URL(), KeyPrefix: redistest.Prefix(t)}), node
}

// ErrorOf returns the error of a call that returns a value, too.
func ErrorOf[T any](_ T, err error) error { return err }

// Call is an operation of a store that a test calls while something is wrong.
type Call struct {
	Name string
	Do   func(ctx context.Context) error
}

// RequireEach makes all calls at the same time and expects something of each error.
func RequireEach(ctx context.Context, t *testing.T, all []Call, expect func(t testing.TB, err error, about ...any)) {
	t.Helper()
	errs := AtOnce(all, func(c Call) error { return c.Do(ctx) })
	for i, c := range all {
		expect(t, errs[i], c.Name)
	}
}

// AtOnce calls do for all values at the same time and returns the errors in their order.
func AtOnce[T any](all []T, do func(T) error) []error {
	errs := make([]error, len(all))
	var g sync.WaitGroup
	for i, v := range all {
		g.Go(func() { errs[i] = do(v) })
	}
	g.Wait()
	return errs
}

// RequireFine expects no error. It is for RequireEach.
func RequireFine(t testing.TB, err error, about ...any) {
	t.Helper()
	require.NoError(t, err, about...)
}

// RequireUnavailable expects the error of a call that can be repeated a little later.
func RequireUnavailable(t testing.TB, err error, about ...any) {
	t.Helper()
	require.ErrorIs(t, err, fault.ErrUnavailable, about...)
	var f *fault.Error
	require.ErrorAs(t, err, &f, about...)
	require.NotZero(t, f.RetryAfter, about...)
}

// Shortly returns a context whose deadline is near, for calls that can't succeed.
func Shortly(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// Counted returns the sum of a counter over its labels.
func Counted(t testing.TB, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	sum := 0.0
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// WaitFor polls until a condition holds. It gives up only if the test would hang otherwise.
func WaitFor(t testing.TB, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(2 * time.Minute)
	for !holds() {
		select {
		case <-tick.C:
		case <-limit:
			require.FailNow(t, "timed out waiting for "+what)
		}
	}
}

// Reply returns what a script returns that evaluates to a Lua value.
func Reply(t testing.TB, value string) (redis.Reply, error) {
	t.Helper()
	return redis.NewReply("test", redistest.Standalone(t).Do(t, "EVAL", "return "+value, "0"))
}

// RequireDecoded expects each operation's decoder to accept the replies that are right, as Lua values, and to refuse
// those that are wrong, and those with a status that no script returns.
func RequireDecoded(t *testing.T, decoders map[string]func(redis.Reply) error, right, wrong map[string][]string) {
	t.Helper()
	for operation, decode := range decoders {
		require.NotEmpty(t, right[operation], operation)
		for _, value := range right[operation] {
			r, err := Reply(t, value)
			require.NoError(t, err)
			require.NoError(t, decode(r), "%s: %s", operation, value)
		}
		require.NotEmpty(t, wrong[operation], operation)
		for _, value := range append(wrong[operation], `{'WHAT'}`, `{'ok'}`, `{''}`) {
			r, err := Reply(t, value)
			require.NoError(t, err, value)
			RequireInternal(t, decode(r), "%s: %s", operation, value)
		}
	}
}

// RequireRefusals expects the error of each status.
func RequireRefusals(t *testing.T, refusals redis.Refusals, want map[string]error) {
	t.Helper()
	for status, err := range want {
		r, noReply := Reply(t, "{'"+status+"'}")
		require.NoError(t, noReply)
		require.ErrorIs(t, refusals.Error(r), err)
	}
}

// RequireInternal expects the error of a reply that no script returns.
func RequireInternal(t testing.TB, err error, about ...any) {
	t.Helper()
	require.ErrorIs(t, err, redis.ErrReply, about...)
	var f *fault.Error
	require.ErrorAs(t, err, &f, about...)
	require.Equal(t, fault.Internal, f.Kind, about...)
}

// RequireNotReplicated repeats a call that too few replicas confirm, and gives it more time each time, until the error
// says so: on a busy machine its time may be over before that. The call must never succeed.
func RequireNotReplicated(t testing.TB, do func(ctx context.Context) error) {
	t.Helper()
	for limit := 100 * time.Millisecond; limit < 2*Patience; limit *= 2 {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		err := do(ctx)
		cancel()
		var f *fault.Error
		require.ErrorAs(t, err, &f)
		require.NotZero(t, f.RetryAfter)
		if f.Slug == fault.SlugNotReplicated {
			return
		}
		RequireUnavailable(t, err)
	}
	require.FailNow(t, "never answered as not replicated")
}

// RequireFull expects the error of a call that needs memory.
func RequireFull(t testing.TB, err error, about ...any) {
	t.Helper()
	require.ErrorIs(t, err, fault.ErrStorageFull, about...)
}
