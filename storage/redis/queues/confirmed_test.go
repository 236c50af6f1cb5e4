package queues

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/redistest"
	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/rig"
	"github.com/tidemark-dev/tidemark/storage/storagetest/queuetest"
)

// Claims and assignments that must be on a replica count only when they are, and their repeats wait too.
func TestQueueWaitsForReplicas(t *testing.T) {
	t.Parallel()
	primary := redistest.Start(t, redistest.Options{})
	replica := redistest.StartReplica(t, primary)
	h := newHall(t, rig.Connect(t, redis.Options{URL: primary.URL(), Timeout: time.Minute}), primary.Client())
	h = hallOf(t, New(h.store.conn, Options{Confirmations: 1}), primary.Client())
	onReplica := func(command, key string) int64 {
		n, err := replica.Do(t, command, key).AsInt64()
		require.NoError(t, err)
		return n
	}
	claim := func(ctx context.Context, token string, ids ...string) error {
		return rig.ErrorOf(h.Claim(ctx, matchmaking.ClaimRequest{Queue: h.Name, Token: token, Hold: queuetest.LongHold, IDs: ids}))
	}
	ends := make(chan string, 10)
	t.Cleanup(h.ListenAssigned(h.Name, matchmaking.AssignedListener{
		Confirmed: func() { ends <- "" }, Interrupted: func() {},
		Ended: func(e matchmaking.TicketEnd) { ends <- strings.Clone(e.ID + e.Content) },
	}))
	require.Empty(t, <-ends)
	h.Add(t, "a", "b", "c", "d", "e")
	match := func(id, ticket string) matchmaking.AssignMatch {
		m := h.Match(id, ticket)
		m.Assignments[0].Created = h.Get(t, ticket).CreateTime
		return m
	}
	m1, m2 := match("m1", "a"), match("m2", "b")
	require.NoError(t, claim(t.Context(), "token", "a", "b"))
	require.EqualValues(t, 2, onReplica("ZCARD", h.k().proposed()))
	first := h.AssignMatches(t.Context(), "token", m1)[0]
	require.NoError(t, first.Err)
	require.Len(t, first.Entries, 1)
	require.Equal(t, "a"+string(m1.Assignments[0].Content), <-ends)
	require.EqualValues(t, 1, onReplica("XLEN", h.k().outbox()))

	replica.Pause(t)
	for range 2 { // new, and then a repeat
		rig.RequireNotReplicated(t, func(ctx context.Context) error { return claim(ctx, "other", "c", "d") })
		rig.RequireNotReplicated(t, func(ctx context.Context) error {
			return h.AssignMatches(ctx, "token", m2)[0].Err
		})
	}
	rig.RequireNotReplicated(t, func(ctx context.Context) error { return rig.ErrorOf(h.Outgoing(ctx, h.Name, 0, 10)) })
	gone := h.AssignMatches(t.Context(), "token", h.Match("m3", "b"))[0]
	require.NoError(t, gone.Err)
	require.NotEmpty(t, gone.Conflicts, "what is refused waits for nobody")
	var both []matchmaking.AssignOutcome
	rig.RequireNotReplicated(t, func(ctx context.Context) error {
		both = h.AssignMatches(ctx, "token", m2, h.Match("m3", "b"))
		return both[0].Err
	})
	require.NoError(t, both[1].Err, "a refusal is known, whatever replicas confirm")
	require.NotEmpty(t, both[1].Conflicts)

	require.NoError(t, h.CancelID(t.Context(), "e"))
	require.Equal(t, "e", <-ends, "no player is told of what replicas don't have")

	replica.Resume(t)
	require.NoError(t, claim(t.Context(), "other", "c", "d"))
	o := h.AssignMatches(t.Context(), "token", m2)[0]
	require.NoError(t, o.Err)
	require.Empty(t, o.Conflicts)
	require.Equal(t, "b"+string(m2.Assignments[0].Content), <-ends)
	require.EqualValues(t, 2, onReplica("XLEN", h.k().outbox()))
	found, err := h.Outgoing(t.Context(), h.Name, 0, 10)
	require.NoError(t, err)
	require.Len(t, found, 2)
	require.Equal(t, 2, h.count(t, "HGET", h.k().stats(), "matched"))
}
