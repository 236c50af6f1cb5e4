package channel

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestError(t *testing.T) {
	t.Parallel()
	err := ErrUnavailable.Because(context.DeadlineExceeded)
	wrapped := fmt.Errorf("fetch ch/s: %w", err)

	require.ErrorIs(t, wrapped, ErrUnavailable, "errors are told apart by their slug")
	require.ErrorIs(t, wrapped, context.DeadlineExceeded, "and lead to their cause")
	require.NotErrorIs(t, wrapped, ErrNoChannel)
	require.NotErrorIs(t, wrapped, context.Canceled)
	require.Equal(t, ErrUnavailable.Detail+": context deadline exceeded", err.Error())
	require.Equal(t, ErrUnavailable.Detail, ErrUnavailable.Error())

	require.Nil(t, ErrUnavailable.Cause, "Because leaves the original as it is")
	require.NoError(t, errors.Unwrap(ErrUnavailable))
}

func TestErrorsHaveNamesOfTheirOwn(t *testing.T) {
	t.Parallel()
	seen := make(map[Slug]bool)
	for _, e := range []*Error{
		ErrNoChannel, ErrNoSubscriber, ErrReceiptEpoch, ErrReceiptAhead, ErrReceiptSuperseded, ErrClockAhead,
		ErrStorageFull, ErrUnavailable,
	} {
		require.False(t, seen[e.Slug], e.Slug)
		seen[e.Slug] = true
		require.NotEmpty(t, e.Detail)
		require.NotEqual(t, Internal, e.Kind)
	}
}
