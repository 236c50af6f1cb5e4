package grpc

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// askers ask for slots in a test, and record the order in which they get one.
type askers struct {
	t       *testing.T
	slots   *slots
	got     []string // clients
	release []func()
}

// ask asks for a slot for a query of a client.
func (a *askers) ask(client string) {
	a.t.Helper()
	go func() {
		release, err := a.slots.acquire(a.t.Context(), client, 0)
		if err != nil {
			return // the test has ended
		}
		a.got, a.release = append(a.got, client), append(a.release, release)
	}()
	synctest.Wait()
}

// end ends the query that has run for the longest time.
func (a *askers) end() {
	release := a.release[0]
	a.release = a.release[1:]
	release()
	synctest.Wait()
}

// TestSlotsAreShared: among clients that wait, the one with the fewest queries in progress is next, and then the one
// whose last query began longest ago, however many queries others have sent before.
func TestSlotsAreShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &askers{t: t, slots: newSlots(nil)}
		for range 40 { // those without a slot are queued
			a.ask("heavy")
		}
		require.Len(t, a.got, maxQueriesClient)
		for range maxQueries - maxQueriesClient { // the other slots
			a.ask("other")
		}
		require.Len(t, a.got, maxQueries)
		for i := range 3 {
			a.ask("light")
			a.ask(fmt.Sprint("once", i))
		}
		a.got = nil
		for range 8 {
			a.end()
		}
		require.Equal(t, []string{"light", "once0", "once1", "once2", "light", "light", "heavy", "heavy"}, a.got)
		for len(a.release) > 0 {
			a.end()
		}
		require.Empty(t, a.slots.clients, "nothing remains of clients without queries")
		require.Zero(t, a.slots.bytes)
	})
}

// TestQueue: the queue is limited for each client and in total, and in time.
func TestQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(nil)
		enter := func(ctx context.Context, client string, size int) <-chan error {
			ended := make(chan error, 1)
			go func() {
				_, err := s.acquire(ctx, client, size)
				ended <- err
			}()
			synctest.Wait()
			return ended
		}
		for i := range maxQueries {
			require.NoError(t, <-enter(t.Context(), fmt.Sprint(i), maxWaiting), "what doesn't wait isn't counted")
		}
		require.Equal(t, errQueries, <-enter(t.Context(), "a", maxWaitingClient))
		var waiting []<-chan error
		for _, client := range []string{"a", "b", "c", "d"} {
			waiting = append(waiting, enter(t.Context(), client, maxWaitingClient-2*waitingBytes))
			require.Equal(t, errQueries, <-enter(t.Context(), client, 1))
			waiting = append(waiting, enter(t.Context(), client, 0))
		}
		require.Equal(t, errQueries, <-enter(t.Context(), "e", 0), "the queue is full")
		require.Equal(t, len(waiting), s.waiting())
		for _, ended := range waiting {
			require.Equal(t, errQueries, <-ended)
		}
		errGone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		result := enter(ctx, "a", 0)
		cancel(errGone)
		require.Equal(t, errGone, <-result)
		soon, cancelSoon := context.WithTimeout(t.Context(), time.Second)
		defer cancelSoon()
		require.Equal(t, context.DeadlineExceeded, <-enter(soon, "a", 0))
		require.Zero(t, s.waiting())
		require.Len(t, s.clients, maxQueries)
	})
}
