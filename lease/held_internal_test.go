package lease

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// After a pause of the process the function may resume before the timer fires.
func TestTheContextLooksAtTheClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		h := &held{request: Request{Name: "job"}, deadline: time.Now().Add(time.Second)}
		h.start(cancel)
		h.timer.Stop()
		holding := holdingContext{Context: ctx, held: h}
		child, stop := context.WithCancel(holding)
		defer stop()
		<-time.After(time.Second - 1)
		require.NoError(t, holding.Err())
		<-time.After(1)
		require.ErrorIs(t, holding.Err(), context.Canceled)
		require.ErrorIs(t, context.Cause(holding), ErrLost)
		require.EqualError(t, context.Cause(holding), "lease job: the lease was lost: it wasn't renewed in time")
		require.ErrorIs(t, context.Cause(child), ErrLost)
	})
}
