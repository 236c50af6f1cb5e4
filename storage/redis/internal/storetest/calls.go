package storetest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
)

// Call is an operation of a store, called while something fails.
type Call struct {
	Name string
	Do   func(ctx context.Context) error
}

// RequireEach makes all calls at the same time and checks each error with expect.
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

// Only returns the calls with some names.
func Only(all []Call, names ...string) []Call {
	return slices.DeleteFunc(slices.Clone(all), func(c Call) bool { return !slices.Contains(names, c.Name) })
}

// AllBut returns the calls with other names.
func AllBut(all []Call, names ...string) []Call {
	return slices.DeleteFunc(slices.Clone(all), func(c Call) bool { return slices.Contains(names, c.Name) })
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

// RequireFull expects the error of a call that needs memory.
func RequireFull(t testing.TB, err error, about ...any) {
	t.Helper()
	require.ErrorIs(t, err, fault.ErrStorageFull, about...)
}

// RequireNotReplicated expects a call to fail because too few replicas confirm it. On a busy machine the call may time
// out before that: it is repeated with more time. It must never succeed.
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
