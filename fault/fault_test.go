package fault_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
)

func TestError(t *testing.T) {
	t.Parallel()
	err := fault.ErrUnavailable.WithCause(context.DeadlineExceeded)
	wrapped := fmt.Errorf("fetch ch/s: %w", err)

	require.ErrorIs(t, wrapped, fault.ErrUnavailable, "errors are compared by slug")
	require.ErrorIs(t, wrapped, context.DeadlineExceeded, "and wrap their cause")
	require.NotErrorIs(t, wrapped, fault.ErrStorageFull)
	require.NotErrorIs(t, wrapped, context.Canceled)
	require.Equal(t, fault.ErrUnavailable.Detail+": context deadline exceeded", err.Error())
	require.Equal(t, fault.ErrUnavailable.Detail, fault.ErrUnavailable.Error())

	require.Nil(t, fault.ErrUnavailable.Cause, "WithCause does not change the original")
	require.NoError(t, errors.Unwrap(fault.ErrUnavailable))
}

func TestList(t *testing.T) {
	t.Parallel()
	slug := regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)
	seen := make(map[fault.Slug]bool)
	for _, e := range fault.List() {
		require.Regexp(t, slug, string(e.Slug))
		require.False(t, seen[e.Slug], "%s is listed twice", e.Slug)
		seen[e.Slug] = true
		require.NotEmpty(t, e.Kinds, e.Slug)
		require.NotEmpty(t, e.Title, e.Slug)
		require.Equal(t, e.Title, e.Slug.Title())
		require.NotEmpty(t, e.Cause, e.Slug)
		require.NotEmpty(t, e.Remedy, e.Slug)
	}
	require.Empty(t, fault.Slug("no-such-slug").Title())
}
