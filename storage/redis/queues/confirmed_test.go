package queues

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/redistest"
	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/rig"
	"github.com/tidemark-dev/tidemark/storage/storagetest/queuetest"
)

func requireNotReplicated(t *testing.T, err error) {
	t.Helper()
	require.ErrorIs(t, err, &fault.Error{Slug: fault.SlugNotReplicated})
}

// Claims and assignments that must be on a replica count only when they are, and their repeats wait too.
func TestQueueWaitsForReplicas(t *testing.T) {
	t.Parallel()
	primary := redistest.Start(t, redistest.Options{})
	replica := redistest.StartReplica(t, primary)
	h := newHall(t, rig.Connect(t, redis.Options{URL: primary.URL(), Timeout: 2 * time.Second}), primary.Client())
	h = hallOf(t, New(h.store.conn, Options{Confirmations: 1}), primary.Client())
	onReplica := func(command, key string) int64 {
		n, err := replica.Do(t, command, key).AsInt64()
		require.NoError(t, err)
		return n
	}
	claim := func(token string, ids ...string) error {
		return rig.ErrorOf(h.Claim(t.Context(), matchmaking.ClaimRequest{Queue: h.Name, Token: token, Hold: queuetest.LongHold, IDs: ids}))
	}
	h.Add(t, "a", "b", "c", "d")
	require.NoError(t, claim("token", "a", "b"))
	require.EqualValues(t, 2, onReplica("ZCARD", h.k().proposed()))
	first := h.AssignOne(t, "token", "m1", "a")
	require.Len(t, first.Entries, 1)
	require.EqualValues(t, 1, onReplica("XLEN", h.k().outbox()))

	replica.Pause(t)
	requireNotReplicated(t, claim("other", "c", "d"))
	requireNotReplicated(t, claim("other", "c", "d"))
	for range 2 { // new, and then a repeat
		for _, o := range h.AssignMatches(t.Context(), "token", h.Match("m2", "b")) {
			requireNotReplicated(t, o.Err)
		}
	}
	_, err := h.Outgoing(t.Context(), h.Name, 0, 10)
	requireNotReplicated(t, err)
	gone := h.AssignMatches(t.Context(), "token", h.Match("m3", "b"))[0]
	require.NoError(t, gone.Err)
	require.NotEmpty(t, gone.Conflicts, "what is refused waits for nobody")
	both := h.AssignMatches(t.Context(), "token", h.Match("m2", "b"), h.Match("m3", "b"))
	requireNotReplicated(t, both[0].Err)
	require.NoError(t, both[1].Err, "a refusal is known, whatever replicas confirm")
	require.NotEmpty(t, both[1].Conflicts)

	replica.Resume(t)
	require.Eventually(t, func() bool { return !errors.Is(claim("other", "c", "d"), fault.ErrUnavailable) }, rig.Patience, queuetest.Shortest/10)
	require.NoError(t, claim("other", "c", "d"))
	o := h.AssignMatches(t.Context(), "token", h.Match("m2", "b"))[0]
	require.NoError(t, o.Err)
	require.Empty(t, o.Conflicts)
	require.EqualValues(t, 2, onReplica("XLEN", h.k().outbox()))
	found, err := h.Outgoing(t.Context(), h.Name, 0, 10)
	require.NoError(t, err)
	require.Len(t, found, 2)
	require.Equal(t, 2, h.count(t, "HGET", h.k().stats(), "matched"))
}
