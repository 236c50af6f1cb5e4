package director

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// TestVisitIdle tests that each idle queue is checked once per visitEach, without a notification, and others never.
func TestVisitIdle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, b, busy := New(Options{}), New(Options{}), New(Options{})
		busy.events.idle.Store(false)
		ctx, cancel := context.WithTimeout(t.Context(), 10*visitEach)
		defer cancel()
		visits := map[*Queue]int{}
		go func() {
			for ctx.Err() == nil {
				select {
				case <-a.events.changed:
					visits[a]++
				case <-b.events.changed:
					visits[b]++
				case <-busy.events.changed:
					visits[busy]++
				case <-ctx.Done():
				}
			}
		}()
		VisitIdle(ctx, func() []*Queue { return []*Queue{a, b, busy} })
		synctest.Wait()
		for _, idle := range []*Queue{a, b} {
			require.GreaterOrEqual(t, visits[idle], 9)
			require.LessOrEqual(t, visits[idle], 11)
		}
		require.Zero(t, visits[busy])
	})
}
