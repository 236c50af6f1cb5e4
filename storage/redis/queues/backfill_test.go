package queues

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/test/storagetest/queuetest"
)

// One call decides acknowledgements like separate calls would. If the backfills are large it decides only the first
// ones, and the others follow.
func TestAcknowledgementsShareCalls(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, h *hall) {
		h.Add(t, "a", "b")
		large := func(name string) string {
			content := json.RawMessage(`"` + name + strings.Repeat("x", prolongBytes/2) + `"`)
			created, err := h.CreateBackfill(t.Context(), matchmaking.CreateBackfillRequest{
				Queue: h.Name, ID: matchmaking.NewBackfillID(h.Name), TTL: queuetest.LongTTL, Max: 10,
				Spec: matchmaking.BackfillSpec{Extensions: map[string]json.RawMessage{"x": content}},
			})
			require.NoError(t, err)
			return created.ID
		}
		joined := h.Backfill(t, queuetest.LongTTL)
		h.HandOutAll(t, queuetest.For(&joined, "a", "b"))
		small := h.Backfill(t, queuetest.LongTTL)
		ids := []string{"nobody", joined.ID, large("1"), large("2"), large("3"), small.ID, joined.ID}
		l := lives{h.Name, 2 * queuetest.LongTTL}
		batch, err := h.store.prolongSome(t.Context(), l, ids)
		require.NoError(t, err)
		require.Equal(t, 4, len(batch), "the reply has two large backfills")

		all, _, err := h.store.prolongAll(t.Context(), l, ids)
		require.NoError(t, err)
		for i, p := range all {
			switch {
			case i == 0:
				require.ErrorIs(t, p.err, matchmaking.ErrNoBackfill)
			case ids[i] == joined.ID:
				require.Equal(t, []string{"a", "b"}, p.tickets)
			default:
				require.NoError(t, p.err)
				require.Nil(t, p.tickets)
				require.Equal(t, h.ReadBackfill(t, ids[i]), p.backfill, "as it is stored")
				created := p.backfill.CreateTime.Truncate(time.Millisecond)
				require.False(t, p.backfill.Expires.Before(created.Add(l.ttl)), "acknowledged later")
			}
		}
		require.Len(t, all, len(ids))
		require.Equal(t, joined.Expires, h.ReadBackfill(t, joined.ID).Expires, "only one that is acknowledged lives longer")
	})
}

func TestPauseBetweenAcknowledgements(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]time.Duration{
		1: 10500 * time.Microsecond, 20: 20 * time.Millisecond, 30: 25 * time.Millisecond, 99: 25 * time.Millisecond,
		prolongs: 0,
	} {
		require.Equal(t, want, prolongPause(n), n)
	}
}
