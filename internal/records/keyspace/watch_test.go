package keyspace_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/records/keyspace"
	"github.com/tidemark-dev/tidemark/lease"
)

// leases are held until the test releases them.
type leases struct{ ends chan error }

func (l leases) Hold(ctx context.Context, _ string, f func(context.Context, uint64) error) error {
	held, lose := context.WithCancelCause(ctx)
	go func() { lose(<-l.ends) }()
	if err := f(held, 1); context.Cause(held) == nil {
		return err
	}
	return context.Cause(held)
}

// shown records the metrics: one line for each call.
type shown []string

func (s *shown) Show(redis string, r keyspace.Report, _ time.Time) {
	for _, k := range r.Kinds {
		*s = append(*s, fmt.Sprint(redis, " ", k.Name, " ", k.Keys))
	}
}
func (s *shown) Clear() { *s = append(*s, "clear") }

// failing is a source that fails once.
type failing struct {
	source
	fails int
}

func (f *failing) Count(ctx context.Context) (int64, error) {
	if f.fails--; f.fails >= 0 {
		return 0, errors.New("down")
	}
	return f.source.Count(ctx)
}

// TestWatch: the holder of the lease counts after each pause, and shows no metrics after it has lost the lease.
func TestWatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		held, metrics := leases{make(chan error)}, &shown{}
		w := &keyspace.Watch{
			Leases: held, Table: table,
			Sources: map[string]keyspace.Source{"channels": &failing{source{[]keyspace.Key{{Name: "viewed:{7}"},
				{Name: "x"}}, 9}, 1}},
			Kinds: []string{"viewed", "lock"}, Rate: 1000, Every: time.Minute, Metrics: metrics,
			Log: slog.New(slog.DiscardHandler),
		}
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		time.Sleep(2*time.Minute + time.Second) //nolint:forbidigo // a bubble's time
		synctest.Wait()
		require.Equal(t, shown{"channels viewed 1", "channels lock 0", "channels viewed 1", "channels lock 0"},
			*metrics, "not while it fails")

		*metrics = nil
		held.ends <- lease.ErrLost
		synctest.Wait()
		require.Equal(t, shown{"clear", "channels viewed 1", "channels lock 0"}, *metrics, "the lease was held again")
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
		require.Equal(t, "clear", (*metrics)[len(*metrics)-1])
		close(held.ends)
	})
}
