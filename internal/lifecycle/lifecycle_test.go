package lifecycle_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/lifecycle"
)

// untilDone is a part that ends when its context does.
func untilDone(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func TestPartsStopInReverseOrder(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	s := lifecycle.New(ctx)
	var order []string
	part := func(name string) func(context.Context) error {
		return func(ctx context.Context) error {
			<-ctx.Done()
			order = append(order, name)
			return nil
		}
	}
	s.Run(ctx, "first", part("first"))
	s.OnStop(func() { order = append(order, "second") })
	s.Run(ctx, "third", part("third"))
	cancel()
	s.Wait(ctx)
	require.Empty(t, order, "the context alone stops nothing")
	require.NoError(t, s.Stop())
	require.Equal(t, []string{"third", "second", "first"}, order)
}

func TestFirstFailure(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	s := lifecycle.New(t.Context())
	s.Run(t.Context(), "sound", untilDone)
	s.Run(t.Context(), "other", func(context.Context) error { return broken })
	s.Wait(t.Context())
	err := s.Stop()
	require.ErrorIs(t, err, broken)
	require.EqualError(t, err, "other: broken")
}

func TestPartThatEndsByItself(t *testing.T) {
	t.Parallel()
	s := lifecycle.New(t.Context())
	s.Run(t.Context(), "short", func(context.Context) error { return nil })
	s.Wait(t.Context())
	require.EqualError(t, s.Stop(), "short: ended by itself")
}

func TestStopThatFails(t *testing.T) {
	t.Parallel()
	s := lifecycle.New(t.Context())
	s.Run(t.Context(), "stubborn", func(ctx context.Context) error {
		<-ctx.Done()
		return errors.New("cut off")
	})
	require.EqualError(t, s.Stop(), "stop the stubborn: cut off")
}
