package grpc

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc"

	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/openmatch"
	"github.com/tidemark-dev/tidemark/server/web"
)

// steps are queues with a ticket that waits. Each query reads further ones until it may leave.
type steps struct {
	Queues
	reading atomic.Int64
	leave   chan struct{}
}

func (s *steps) Definitions() []matchmaking.Definition { return nil }

func (s *steps) Waiting(_ context.Context, _ matchmaking.WaitingRequest, each func([]*matchmaking.Ticket) error) error {
	if err := each([]*matchmaking.Ticket{{ID: "a"}}); err != nil {
		return err
	}
	s.reading.Add(1)
	<-s.leave
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
		s := &steps{leave: make(chan struct{})}
		q := &query{
			queues: s, router: &web.Router{}, page: 1, answers: &defaultAnswers, slots: newSlots(),
			turns: semaphore.NewWeighted(1),
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
			s.leave <- struct{}{}
			synctest.Wait()
		}
		require.Zero(t, s.reading.Load())
		close(later)
		s.leave <- struct{}{}
		clients.Wait()
		require.True(t, q.turns.TryAcquire(1), "all turns were returned")
	})
}
