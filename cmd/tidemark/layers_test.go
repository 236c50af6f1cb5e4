package main

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// untilDone is a part that ends when it is told to.
func untilDone(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func TestLayersStopInReverseOrder(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	l := newLayers(ctx)
	var order []string
	part := func(name string) func(context.Context) error {
		return func(ctx context.Context) error {
			<-ctx.Done()
			order = append(order, name)
			return nil
		}
	}
	l.run(ctx, "first", part("first"))
	l.onStop(func() { order = append(order, "second") })
	l.run(ctx, "third", part("third"))
	cancel()
	l.wait(ctx)
	require.Empty(t, order, "the context alone stops nothing")
	require.NoError(t, l.stop())
	require.Equal(t, []string{"third", "second", "first"}, order)
}

func TestLayersEndWithTheFirstFailure(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	l := newLayers(t.Context())
	l.run(t.Context(), "sound", untilDone)
	l.run(t.Context(), "other", func(context.Context) error { return broken })
	l.wait(t.Context())
	err := l.stop()
	require.ErrorIs(t, err, broken)
	require.EqualError(t, err, "other: broken")
}

func TestLayersMindAPartThatEndsByItself(t *testing.T) {
	t.Parallel()
	l := newLayers(t.Context())
	l.run(t.Context(), "short", func(context.Context) error { return nil })
	l.wait(t.Context())
	require.EqualError(t, l.stop(), "short: ended by itself")
}

func TestLayersTellOfAStopThatFails(t *testing.T) {
	t.Parallel()
	l := newLayers(t.Context())
	l.run(t.Context(), "stubborn", func(ctx context.Context) error {
		<-ctx.Done()
		return errors.New("cut off")
	})
	require.EqualError(t, l.stop(), "stop the stubborn: cut off")
}
