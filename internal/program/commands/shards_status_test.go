package commands

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/program/cli"
	"github.com/tidemark-dev/tidemark/shard"
)

// silentLayouts is a Redis that doesn't answer.
type silentLayouts struct{ shard.Layouts }

func (silentLayouts) Status(ctx context.Context, _ string) ([]shard.DC, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestStatusTimeout: the time-out ends a watch also while Redis doesn't answer.
func TestStatusTimeout(t *testing.T) {
	t.Parallel()
	s := shardsStatusCommand{base: base{terminal: cli.Terminal{Stdout: io.Discard}, cache: "author"}, watch: true,
		every: time.Second, timeout: time.Millisecond}
	require.NoError(t, s.run(t.Context(), silentLayouts{}))
	s.isCheck = true
	require.ErrorIs(t, s.run(t.Context(), silentLayouts{}), errStillMissing)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.timeout = time.Hour
	require.ErrorIs(t, s.run(ctx, silentLayouts{}), context.Canceled)
}
