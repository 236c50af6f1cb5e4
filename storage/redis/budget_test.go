package redis

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// An owner with many large reads doesn't delay others, and no more is in transit than the budget.
func TestBudgetIsFair(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newReadBudget(4, metrics{})
		order, over := make(chan string, 400), make(chan struct{})
		read := func(name string) {
			if granted, release, err := b.acquire(t.Context(), name, 100); err == nil && granted == 4 {
				order <- name
				<-over
				release()
			}
		}
		for range 300 {
			go read("crowded")
		}
		synctest.Wait()
		go read("other")
		synctest.Wait()
		require.Len(t, order, 1, "one has the whole budget")
		for turn := 1; <-order != "other"; turn++ {
			require.LessOrEqual(t, turn, turnsPerOwner, "those of the crowded channel that came first")
			over <- struct{}{}
			synctest.Wait()
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, _, err := b.acquire(ctx, "third", 1)
		require.ErrorIs(t, err, context.Canceled)
		close(over)
		synctest.Wait()
		require.Len(t, order, 300-turnsPerOwner)
		b.mu.Lock()
		defer b.mu.Unlock()
		require.Empty(t, b.owners)
	})
}
