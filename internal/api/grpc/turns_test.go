package grpc

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/openmatch/convert"
	"github.com/tidemark-dev/tidemark/openmatch"
)

// steps are queues with a ticket that waits. Each query goes on reading after it has received from release.
type steps struct {
	Queues
	reading atomic.Int64
	release chan struct{}
}

func (s *steps) Definitions() []matchmaking.Definition { return nil }

func (s *steps) Waiting(_ context.Context, _ matchmaking.WaitingRequest, each func([]*matchmaking.Ticket) error) error {
	if err := each([]*matchmaking.Ticket{{ID: "a", Status: matchmaking.Searching}}); err != nil {
		return err
	}
	s.reading.Add(1)
	<-s.release
	s.reading.Add(-1)
	return each(nil)
}

// idStream is the stream of a call whose client reads when it is told to.
type idStream struct {
	grpc.ServerStream
	ctx  context.Context //nolint:containedctx // of the call, as in grpc-go
	read chan struct{}   // closed: the client reads
}

func (s *idStream) Context() context.Context { return s.ctx }

func (s *idStream) Send(*openmatch.QueryTicketIdsResponse) error {
	<-s.read
	return nil
}

// TestQueriesTakeTurns: no more queries than there are turns go through tickets at the same time. A client that doesn't
// read holds up no others.
func TestQueriesTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &steps{release: make(chan struct{})}
		q := &query{
			queues: s, router: &web.Router{}, page: 1, answers: &defaultAnswers, slots: newSlots(nil),
			turns: newTurns(1),
		}
		var clients sync.WaitGroup
		ask := func(read chan struct{}) {
			clients.Go(func() {
				assert.NoError(t, q.QueryTicketIds(&openmatch.QueryTicketIdsRequest{Pool: &openmatch.Pool{}},
					&idStream{ctx: t.Context(), read: read}))
			})
			synctest.Wait()
		}
		later, now := make(chan struct{}), make(chan struct{})
		close(now)
		ask(later)
		for range 2 {
			ask(now)
		}
		for range 2 {
			require.EqualValues(t, 1, s.reading.Load())
			s.release <- struct{}{}
			synctest.Wait()
		}
		require.Zero(t, s.reading.Load())
		close(later)
		s.release <- struct{}{}
		clients.Wait()
		require.Zero(t, q.turns.open, "all turns were returned")
	})
}

// TestQueueCountsFilters: a filter of a queued query counts with its memory, and not with its two bytes of the message.
func TestQueueCountsFilters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &steps{release: make(chan struct{})}
		q := &query{
			queues: s, router: &web.Router{}, page: 1, answers: &defaultAnswers, slots: newSlots(nil),
			turns: newTurns(maxQueries),
		}
		pool := &openmatch.Pool{}
		for range convert.MaxFilters {
			pool.TagPresentFilters = append(pool.TagPresentFilters, &openmatch.TagPresentFilter{})
		}
		read := make(chan struct{})
		close(read)
		var clients sync.WaitGroup
		var refused atomic.Bool
		queries := 0
		for ; !refused.Load(); queries++ {
			clients.Go(func() {
				err := q.QueryTicketIds(&openmatch.QueryTicketIdsRequest{Pool: pool}, &idStream{ctx: t.Context(), read: read})
				if err != nil {
					assert.Equal(t, errQueries, err)
					refused.Store(true)
				}
			})
			synctest.Wait()
		}
		const filterMemory = 146 // measured
		assert.LessOrEqual(t, q.slots.waiting()*convert.MaxFilters*filterMemory, maxWaitingClient)
		assert.Equal(t, queries, maxQueriesClient+q.slots.waiting()+1)
		close(s.release)
		clients.Wait()
	})
}

// rounds are queues from which each query reads a number of times. They record whose turn each of them was.
type rounds struct {
	steps
	number int
	turns  []string // users
}

func (r *rounds) Waiting(
	ctx context.Context, _ matchmaking.WaitingRequest, each func([]*matchmaking.Ticket) error,
) error {
	for range r.number {
		if err := each(nil); err != nil {
			return err
		}
		r.turns = append(r.turns, access.From(ctx).User())
		<-r.release
	}
	return nil
}

// TestTurnsAreShared: clients take turns, however many queries each has.
func TestTurnsAreShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &rounds{steps: steps{release: make(chan struct{})}, number: 3}
		q := &query{
			queues: r, router: &web.Router{}, page: 1, answers: &defaultAnswers, slots: newSlots(nil),
			turns: newTurns(1),
		}
		var clients sync.WaitGroup
		for _, user := range []string{"heavy", "heavy", "heavy", "light"} {
			ctx := access.With(t.Context(), &access.Principal{Kind: access.User, Subject: user})
			clients.Go(func() {
				assert.NoError(t, q.QueryTicketIds(&openmatch.QueryTicketIdsRequest{Pool: &openmatch.Pool{}}, &idStream{ctx: ctx}))
			})
			synctest.Wait()
		}
		for range 4 * r.number {
			r.release <- struct{}{}
			synctest.Wait()
		}
		clients.Wait()
		require.Equal(t, []string{"heavy", "light", "heavy", "light", "heavy", "light"}, r.turns[:6])
	})
}
