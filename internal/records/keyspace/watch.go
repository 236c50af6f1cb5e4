package keyspace

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/lease"
)

// watchLease is the lease of the process that counts for all.
const watchLease = "key-metrics"

// Leases elects one process that counts for all. *lease.Manager implements it.
type Leases interface {
	Hold(ctx context.Context, name string, f func(ctx context.Context, fence uint64) error) error
}

// Metrics shows the counts.
type Metrics interface {
	Show(redis string, r Report, at time.Time)
	Clear() // another process shows it from now on
}

// Watch counts the keys of some kinds periodically, in one process at a time. All fields are needed.
type Watch struct {
	Leases  Leases
	Table   *records.Table
	Sources map[string]Source // by the Redis that they are of
	Kinds   []string          // that are shown, also if they have no keys
	Rate    int               // maximum number of keys to examine per second
	Every   time.Duration     // pause after each time that all were counted
	Metrics Metrics
	Log     *slog.Logger
}

// Run counts until ctx ends, which is its only error. Failures are logged, and retried after the pause.
func (w *Watch) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		err := w.Leases.Hold(ctx, watchLease, func(ctx context.Context, _ uint64) error { return w.hold(ctx) })
		if err != nil && ctx.Err() == nil && !errors.Is(err, lease.ErrLost) {
			w.Log.WarnContext(ctx, "cannot acquire the lease of key metrics", "error", err)
			w.pause(ctx)
		}
	}
	return ctx.Err()
}

// hold counts while the lease is held.
func (w *Watch) hold(ctx context.Context) error {
	defer w.Metrics.Clear()
	for ctx.Err() == nil {
		for redis, source := range w.Sources {
			report, err := Run(ctx, source, Options{Table: w.Table, Kinds: w.Kinds, Rate: w.Rate})
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case err != nil:
				w.Log.WarnContext(ctx, "cannot count the keys", "redis", redis, "error", err)
			default:
				w.Metrics.Show(redis, report.of(w.Kinds), time.Now())
			}
		}
		w.pause(ctx)
	}
	return ctx.Err()
}

func (w *Watch) pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(w.Every):
	}
}

// of returns the report for these kinds, also those without keys.
func (r Report) of(kinds []string) (all Report) {
	for _, name := range kinds {
		kind := Kind{Name: name}
		for _, k := range r.Kinds {
			if k.Name == name {
				kind = k
			}
		}
		all.Kinds = append(all.Kinds, kind)
	}
	return all
}
