package server_test

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/openmatch"
	"github.com/tidemark-dev/tidemark/openmatch/openmatchconnect"
)

// watching is a watch: a client's call returns only when the answer begins, so it has a goroutine.
type watching struct {
	received chan *openmatch.WatchAssignmentsResponse // closed at the end
	last     *openmatch.WatchAssignmentsResponse
	err      error // of the end
}

// Receive waits for a message, and gives false at the end.
func (w *watching) Receive() (ok bool) {
	w.last, ok = <-w.received
	return ok
}

// Msg gives what came last.
func (w *watching) Msg() *openmatch.WatchAssignmentsResponse { return w.last }

// Err gives the error of the end, which has come.
func (w *watching) Err() error { return w.err }

// watch watches until the test ends.
func (r *rpcHarness) watch(f openmatchconnect.FrontendServiceClient, id string) *watching {
	return r.watchIn(r.t.Context(), f, id)
}

func (r *rpcHarness) watchIn(ctx context.Context, f openmatchconnect.FrontendServiceClient, id string) *watching {
	r.t.Helper()
	w := &watching{received: make(chan *openmatch.WatchAssignmentsResponse, 10)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer close(w.received)
		stream, err := f.WatchAssignments(ctx, connect.NewRequest(&openmatch.WatchAssignmentsRequest{TicketId: id}))
		if err != nil {
			w.err = err
			return
		}
		for stream.Receive() {
			w.received <- stream.Msg()
		}
		w.err = stream.Err()
	}()
	r.t.Cleanup(func() { <-ended })
	return w
}

// awaitWaiting waits until so many wait on channels.
func (r *rpcHarness) awaitWaiting(n int) {
	r.t.Helper()
	require.Eventually(r.t, func() bool {
		waiting, _ := r.service.Waiting()
		return waiting >= n
	}, time.Minute, time.Millisecond)
}

// awaitNobody waits until nobody waits on channels.
func (r *rpcHarness) awaitNobody() {
	r.t.Helper()
	require.Eventually(r.t, func() bool {
		waiting, _ := r.service.Waiting()
		return waiting == 0
	}, time.Minute, time.Millisecond)
}

// ends checks how a stream ends that sends nothing more.
func ends(t testing.TB, stream *watching, code connect.Code, text string) {
	t.Helper()
	require.False(t, stream.Receive(), "%v", stream.Msg())
	isRPC(t, stream.Err(), code, text)
}

// TestWatchThatWasLeftIsLetGo at once: what clients have left takes no memory.
func TestWatchThatWasLeftIsLetGo(t *testing.T) { //nolint:paralleltest // it looks at the memory of the whole process
	r := startRPC(t)
	f := r.frontend(protocols[0])
	id := r.create(f, &openmatch.Ticket{}).GetId()
	const watches = 100
	wave := func() {
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		var clients sync.WaitGroup
		for range watches {
			clients.Go(func() {
				stream, err := f.WatchAssignments(ctx, connect.NewRequest(&openmatch.WatchAssignmentsRequest{TicketId: id}))
				if err == nil {
					_ = stream.Close() // it was left before it began
				}
			})
		}
		r.awaitWaiting(watches)
		leave()
		clients.Wait()
		r.awaitNobody()
	}
	wave() // makes what stays
	const waves = 10
	before := objects()
	for range waves {
		wave()
	}
	require.Eventually(t, func() bool {
		return objects() < before+4*waves*watches // a stream is eight
	}, time.Minute, 10*time.Millisecond)
}

// objects counts those in memory.
func objects() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapObjects
}

func TestWatchOfNothing(t *testing.T) {
	t.Parallel()
	r := startRPC(t)
	for _, id := range []string{"never-was", "not an ID", "{x}"} {
		for _, p := range protocols {
			ends(t, r.watch(r.frontend(p), id), connect.CodeNotFound, "Ticket id: "+id+" not found")
		}
	}
}

// TestWatchEndsWithItsTicket while it waits, and when its assignment can't be read any more.
func TestWatchEndsWithItsTicket(t *testing.T) {
	t.Parallel()
	r := startRPC(t)
	r.matches.definitions = []matchmaking.Definition{{Name: "q", AssignmentTTL: matchmaking.Duration(200 * time.Millisecond)}}
	f := r.frontend(protocols[0])
	given, assigned := r.create(f, &openmatch.Ticket{}).GetId(), r.create(f, &openmatch.Ticket{}).GetId()
	first, second := r.watch(f, given), r.watch(f, assigned)
	r.awaitWaiting(2)
	_, err := f.DeleteTicket(t.Context(), connect.NewRequest(&openmatch.DeleteTicketRequest{TicketId: given}))
	require.NoError(t, err)
	ends(t, first, connect.CodeNotFound, "Ticket id: "+given+" not found")
	r.matches.assign(t, assigned, "host:1")
	require.True(t, second.Receive())
	ends(t, second, connect.CodeNotFound, "Ticket id: "+assigned+" not found")
}

// TestWatchAtDrain ends those that wait and those that have their assignment.
func TestWatchAtDrain(t *testing.T) {
	t.Parallel()
	r := startRPC(t)
	var watches []*watching
	for _, p := range protocols {
		f := r.frontend(p)
		waits, has := r.create(f, &openmatch.Ticket{}).GetId(), r.create(f, &openmatch.Ticket{}).GetId()
		first, second := r.watch(f, waits), r.watch(f, has)
		r.matches.assign(t, has, "host:1")
		require.True(t, second.Receive())
		watches = append(watches, first, second)
	}
	r.awaitWaiting(len(protocols))
	r.drain()
	for _, w := range watches {
		ends(t, w, connect.CodeUnavailable, "the server is shutting down")
	}
}

// TestWatcherGoes ends the call in the server too, by the client's will or its deadline.
func TestWatcherGoes(t *testing.T) {
	t.Parallel()
	r := startRPC(t)
	for _, p := range protocols {
		f := r.frontend(p)
		ctx, cancel := context.WithCancel(t.Context())
		stream := r.watchIn(ctx, f, r.create(f, &openmatch.Ticket{}).GetId())
		r.awaitWaiting(1)
		cancel()
		require.False(t, stream.Receive())
		require.Equal(t, connect.CodeCanceled, connect.CodeOf(stream.Err()))

		ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
		stream = r.watchIn(ctx, f, r.create(f, &openmatch.Ticket{}).GetId())
		require.False(t, stream.Receive())
		require.Equal(t, connect.CodeDeadlineExceeded, connect.CodeOf(stream.Err()))
		cancel()
		require.Eventually(t, func() bool {
			waiting, _ := r.service.Waiting()
			r.matches.mu.Lock()
			defer r.matches.mu.Unlock()
			return waiting == 0 && r.matches.attending == 0
		}, time.Minute, time.Millisecond)
	}
}

// counted counts the store's fetches from now on.
func (r *rpcHarness) counted() *atomic.Int64 {
	fetches := new(atomic.Int64)
	r.store.intercept(func(_ context.Context, call string) error {
		if call == "Fetch" {
			fetches.Add(1)
		}
		return nil
	})
	return fetches
}

// TestWatchCostsOneFetch and one more at most, where the channel was confirmed late. The assignment is handed over.
func TestWatchCostsOneFetch(t *testing.T) {
	t.Parallel()
	r := startRPC(t)
	f := r.frontend(protocols[0])
	id := r.create(f, &openmatch.Ticket{}).GetId()
	fetches := r.counted()
	fetched := make(chan struct{}, 100)
	r.store.onFetch(func() { fetched <- struct{}{} })
	stream := r.watch(f, id)
	<-fetched
	r.matches.assign(t, id, "host:1")
	require.True(t, stream.Receive())
	require.LessOrEqual(t, fetches.Load(), int64(2))
	r.matches.mu.Lock()
	defer r.matches.mu.Unlock()
	require.Zero(t, r.matches.reads)
}

// TestWatchBehindOtherMessages finds the assignment, leaves the others unread, and doesn't fetch them over and over.
func TestWatchBehindOtherMessages(t *testing.T) {
	t.Parallel()
	r := startRPC(t)
	f := r.frontend(protocols[0])
	id := r.create(f, &openmatch.Ticket{}).GetId()
	name := matchmaking.ChannelOf(id)
	drafts := make([]channel.Draft, 100)
	for i := range drafts {
		drafts[i].Content = []byte("1")
	}
	_, err := r.service.Publish(t.Context(), name, drafts)
	require.NoError(t, err)
	fetches := r.counted()
	stream := r.watch(f, id)
	require.Eventually(t, func() bool { return fetches.Load() > 0 }, time.Minute, time.Millisecond)
	<-time.After(300 * time.Millisecond) // hundreds, one right after the other
	r.matches.assign(t, id, "host:1")
	require.True(t, stream.Receive(), "%v", stream.Err())
	require.Equal(t, "host:1", stream.Msg().GetAssignment().GetConnection())
	require.Less(t, fetches.Load(), int64(10))
	d, err := r.service.Fetch(t.Context(), channel.Query{Channel: name, Subscriber: matchmaking.Subscriber, Max: 1000})
	require.NoError(t, err)
	require.Len(t, d.Messages, 101)

	r.matches.set(func(m *matches) { m.tickets[id].Status = matchmaking.Expired })
	ends(t, r.watch(f, id), connect.CodeNotFound, "Ticket id: "+id+" not found")
}

// TestWatchOutlivesTheServersLimits for whole requests and answers.
func TestWatchOutlivesTheServersLimits(t *testing.T) {
	t.Parallel()
	const limit = 300 * time.Millisecond
	r := startRPC(t)
	r.url = serveRPC(t, r.handler, limit)
	watches := map[string]*watching{}
	for _, p := range protocols {
		f := r.frontend(p)
		id := r.create(f, &openmatch.Ticket{}).GetId()
		watches[id] = r.watch(f, id)
	}
	r.awaitWaiting(len(protocols))
	<-time.After(2 * limit)
	for id, w := range watches {
		r.matches.assign(t, id, "host:1")
		require.True(t, w.Receive(), "%v", w.Err())
	}
	<-time.After(2 * limit) // those that have their assignment stay open too
	r.drain()
	for _, w := range watches {
		ends(t, w, connect.CodeUnavailable, "the server is shutting down")
	}
}

// TestWatchPassesOverWhatIsNoAssignment of the ticket: it waits for that.
func TestWatchPassesOverWhatIsNoAssignment(t *testing.T) {
	t.Parallel()
	r := startRPC(t)
	f := r.frontend(protocols[0])
	id := r.create(f, &openmatch.Ticket{}).GetId()
	for name, content := range map[string]string{
		"assignment-x": `1`,
		"assignment-y": `{"ticketId":"` + id + `","matchId":"z","connection":"forged"}`,
		"assignment-v": `{"ticketId":"another","matchId":"v","connection":"forged"}`,
		"hello":        `{"ticketId":"` + id + `","matchId":"m","connection":"forged"}`,
	} {
		drafts := []channel.Draft{{ID: name, Content: []byte(content)}}
		_, err := r.service.Publish(t.Context(), matchmaking.ChannelOf(id), drafts)
		require.NoError(t, err)
	}
	w := r.watch(f, id)
	r.matches.assign(t, id, "the match's")
	require.True(t, w.Receive(), "%v", w.Err())
	require.Equal(t, "the match's", w.Msg().GetAssignment().GetConnection())

	r.store.fail(fault.ErrUnavailable)
	ends(t, r.watch(f, id), connect.CodeUnavailable, fault.ErrUnavailable.Detail)
}
