package grpc_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/openmatch"
	"github.com/tidemark-dev/tidemark/test/servertest"
)

// watching is a watch: a client's call returns only when the answer begins, so it has a goroutine.
type watching struct {
	received chan *openmatch.WatchAssignmentsResponse // closed at the end
	err      error                                    // of the end
}

// receives waits for an assignment.
func (w *watching) receives(t testing.TB) *openmatch.Assignment {
	t.Helper()
	message, ok := <-w.received
	if !ok {
		require.NoError(t, w.err)
		require.Fail(t, "the watch has ended")
	}
	return message.GetAssignment()
}

// ends waits for the end, and expects no message before it.
func (w *watching) ends(t testing.TB) error {
	t.Helper()
	message, ok := <-w.received
	require.False(t, ok, "%v", message)
	return w.err
}

// watch watches until the test ends.
func (h *harness) watch(f openmatch.FrontendServiceClient, id string) *watching {
	return h.watchIn(h.t.Context(), f, id)
}

func (h *harness) watchIn(ctx context.Context, f openmatch.FrontendServiceClient, id string) *watching {
	h.t.Helper()
	w := &watching{received: make(chan *openmatch.WatchAssignmentsResponse, 10)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer close(w.received)
		stream, err := f.WatchAssignments(ctx, &openmatch.WatchAssignmentsRequest{TicketId: id})
		if err != nil {
			w.err = err
			return
		}
		for {
			message, err := stream.Recv()
			if err != nil {
				w.err = err
				return
			}
			w.received <- message
		}
	}()
	h.t.Cleanup(func() { <-ended })
	return w
}

// TestAbandonedWatchIsReleased checks that abandoned watches release their memory at once.
func TestAbandonedWatchIsReleased(t *testing.T) { //nolint:paralleltest // it measures the memory of the whole process
	h := start(t)
	f := h.frontend(servertest.GRPC)
	id := h.newID(f)
	const watches = 100
	wave := func() {
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		var clients sync.WaitGroup
		for range watches {
			clients.Go(func() {
				stream, err := f.WatchAssignments(ctx, &openmatch.WatchAssignmentsRequest{TicketId: id})
				if err == nil {
					_, _ = stream.Recv() // until it is left
				}
			})
		}
		h.awaitWaiting(watches)
		leave()
		clients.Wait()
		h.awaitWaiting(0)
	}
	wave() // allocates memory that remains
	const waves = 10
	before := objects()
	for range waves {
		wave()
	}
	require.Eventually(t, func() bool {
		return objects() < before+4*waves*watches // a stream is eight
	}, servertest.Patience, 10*servertest.Step)
}

// objects returns how many objects are in memory.
func objects() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapObjects
}

// TestWatchEndsWithItsTicket: at once for a nonexistent ticket, during the wait, when its assignment is deleted, or on
// a read error.
func TestWatchEndsWithItsTicket(t *testing.T) {
	t.Parallel()
	h := start(t)
	isGone := func(w *watching, id string) {
		t.Helper()
		isError(t, w.ends(t), codes.NotFound, "Ticket id: "+id+" not found")
	}
	for _, p := range servertest.Protocols {
		f := h.frontend(p)
		for _, id := range []string{"never-was", "not an ID", "{x}", ""} {
			isGone(h.watch(f, id), id)
		}
		deleted, assigned := h.newID(f), h.newID(f)
		first, second := h.watch(f, deleted), h.watch(f, assigned)
		h.awaitWaiting(2)
		h.matches.assign(assigned, "host:1")
		second.receives(t)
		for _, id := range []string{deleted, assigned} {
			_, err := f.DeleteTicket(t.Context(), &openmatch.DeleteTicketRequest{TicketId: id})
			require.NoError(t, err)
		}
		isGone(first, deleted)
		isGone(second, assigned)
	}
	h.matches.set(func() { h.matches.fail = func() error { return fault.ErrUnavailable } })
	isError(t, h.watch(h.frontend(servertest.Native), "any").ends(t), codes.Unavailable, fault.ErrUnavailable.Detail)
}

// TestWatchAtDrain ends watches that wait and those that have their assignment.
func TestWatchAtDrain(t *testing.T) {
	t.Parallel()
	h := start(t)
	var watches []*watching
	for _, p := range servertest.Protocols {
		f := h.frontend(p)
		waits, assigned := h.newID(f), h.newID(f)
		first, second := h.watch(f, waits), h.watch(f, assigned)
		h.matches.assign(assigned, "host:1")
		second.receives(t)
		watches = append(watches, first, second)
	}
	h.awaitWaiting(len(servertest.Protocols))
	h.drain()
	for _, w := range watches {
		isError(t, w.ends(t), codes.Unavailable, "the server is shutting down")
	}
}

// TestWatcherGoes checks that the call ends in the server too, when the client cancels it or its deadline passes.
func TestWatcherGoes(t *testing.T) {
	t.Parallel()
	h := start(t)
	for _, p := range servertest.Protocols {
		f := h.frontend(p)
		ctx, cancel := context.WithCancel(t.Context())
		w := h.watchIn(ctx, f, h.newID(f))
		h.awaitWaiting(1)
		cancel()
		require.Equal(t, codes.Canceled, status.Code(w.ends(t)))

		ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
		w = h.watchIn(ctx, f, h.newID(f))
		require.Equal(t, codes.DeadlineExceeded, status.Code(w.ends(t)))
		cancel()
		h.awaitWaiting(0)
	}
}

// TestWatchOutlivesTheLimits checks that a watch outlives the limits of net/http for requests and answers.
func TestWatchOutlivesTheLimits(t *testing.T) {
	t.Parallel()
	const limit = 300 * time.Millisecond
	h := start(t)
	h.url = servertest.Serve(t, h.router, limit)
	watches := map[string]*watching{}
	for _, p := range servertest.Protocols {
		f := h.frontend(p)
		id := h.newID(f)
		watches[id] = h.watch(f, id)
	}
	h.awaitWaiting(len(servertest.Protocols))
	<-time.After(2 * limit)
	for id, w := range watches {
		h.matches.assign(id, "host:1")
		w.receives(t)
	}
	<-time.After(2 * limit) // watches that have their assignment stay open too
	h.drain()
	for _, w := range watches {
		isError(t, w.ends(t), codes.Unavailable, "the server is shutting down")
	}
}
