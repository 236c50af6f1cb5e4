package backend_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/backend"
)

// taking is a function that takes some time, and sends how it ended.
type taking struct {
	time.Duration
	ended chan error
}

func (taking) Check(backend.Function) error { return nil }

func (f taking) Run(ctx context.Context, _ backend.FetchRequest, _ func(backend.Proposal) error) error {
	select {
	case <-time.After(f.Duration):
		f.ended <- nil
		return nil
	case <-ctx.Done():
		f.ended <- ctx.Err()
		return context.Cause(ctx)
	}
}

// failing is an evaluator that fails at once.
type failing struct{ backend.ByScore }

func (failing) Evaluate(context.Context, <-chan backend.Proposal, func(id string) error) error {
	return &backend.Failure{Code: backend.CodeUnknown, Text: "my evaluator"}
}

// An evaluator that fails at once leaves a call time to reach its function, but not for long.
func TestFunctionsGoOnShortlyAfterTheEvaluatorFails(t *testing.T) {
	t.Parallel()
	for took, want := range map[time.Duration]error{50 * time.Millisecond: nil, time.Hour: context.Canceled} {
		t.Run(took.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := taking{took, make(chan error, 1)}
				s, err := backend.New(backend.Options{
					Store: struct{ backend.Store }{}, Functions: f, Logger: slog.New(slog.DiscardHandler),
					Evaluator: func(matchmaking.Definition) (backend.Evaluator, error) { return failing{}, nil },
					Queue: func(context.Context, string) (matchmaking.Definition, error) {
						return matchmaking.UserDefinition("q"), nil
					},
				})
				require.NoError(t, err)
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- s.Run(ctx) }()
				err = s.Fetch(t.Context(), backend.FetchRequest{Queue: "q"}, nil)
				require.EqualError(t, err, "my evaluator")
				require.Equal(t, want, <-f.ended)
				stop()
				require.NoError(t, <-ended)
			})
		})
	}
}
