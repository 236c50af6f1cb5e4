package service

import (
	"context"
	"fmt"
	"time"

	"github.com/tidemark-dev/tidemark/internal/pace"
	"github.com/tidemark-dev/tidemark/matchmaking/internal/outage"
)

// missRefresh is the minimum interval between reads of the definitions because of unknown names.
const missRefresh = 100 * time.Millisecond

// refreshMiss reads the stored definitions, with a read that begins after the call. Concurrent calls share one read,
// limited to one per missRefresh, so that unknown names don't overload the store.
func (r *registry) refreshMiss(ctx context.Context) error {
	read := r.misses.DoChan("", func() (any, error) { // it continues after ctx ends, for the other callers
		ctx := context.WithoutCancel(ctx)
		r.mu.Lock()
		wait := missRefresh - time.Since(r.lastMiss)
		r.mu.Unlock()
		pace.Sleep(ctx, wait)
		r.misses.Forget("") // later callers need a later read
		r.mu.Lock()
		r.lastMiss = time.Now()
		r.mu.Unlock()
		return nil, r.refresh(ctx)
	})
	select {
	case result := <-read:
		return result.Err
	case <-ctx.Done():
		return fmt.Errorf("read the queues' definitions: %w", ctx.Err())
	}
}

// beginReading prevents an earlier read of the definitions from replacing newer definitions, until end is called.
func (r *registry) beginReading(ctx context.Context) (end func(), err error) {
	select {
	case r.reading <- struct{}{}:
		return func() { <-r.reading }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("read the queues' definitions: %w", ctx.Err())
	}
}

// refresh reads the stored definitions.
func (r *registry) refresh(ctx context.Context) error {
	end, err := r.beginReading(ctx)
	if err != nil {
		return err
	}
	defer end()
	stored, err := r.o.Store.Definitions(ctx)
	if err != nil {
		return fmt.Errorf("read the queues' definitions: %w", err)
	}
	return r.merge(stored)
}

// watch refreshes the definitions periodically, until ctx ends.
func (r *registry) watch(ctx context.Context) {
	failing := outage.New(r.o.Logger, "cannot read queue definitions")
	for {
		err := r.refresh(ctx)
		failing.Report(ctx, err)
		if !pace.Sleep(ctx, pace.Jitter(r.o.Refresh)) {
			return
		}
	}
}
