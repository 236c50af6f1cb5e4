package matchmaking_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

// TestIDsNameTheirQueue checks that NewID's IDs contain their queue, also for the longest queue name.
func TestIDsNameTheirQueue(t *testing.T) {
	t.Parallel()
	longest := strings.Repeat("q", matchmaking.MaxQueueNameBytes)
	require.Len(t, longest, 90)
	require.Error(t, matchmaking.CheckQueueName(longest+"q"))
	for _, queue := range []string{"duel", "a.b:c-d_9", longest} {
		id := matchmaking.NewID(queue)
		require.NotEqual(t, id, matchmaking.NewID(queue))
		require.NoError(t, matchmaking.CheckTicketID(id))
		require.NoError(t, matchmaking.CheckMatchID(id))
		named, ok := matchmaking.QueueOf(id)
		require.True(t, ok)
		require.Equal(t, queue, named)
	}
}

// TestChosenIDs checks that callers can choose every ID except those of the service's form.
func TestChosenIDs(t *testing.T) {
	t.Parallel()
	const made = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
	for id, chosen := range map[string]bool{
		"ann": true, made: true, made + ".": true, made + ":duel": true, made + ".-": true,
		strings.ToLower(made) + ".duel": true,
		"8" + made[1:] + ".duel":        true, "I" + made[1:] + ".duel": true, "U" + made[1:] + ".duel": true,
		"0-" + made[2:] + ".duel": true,
		made[1:] + ".duel":        true, made + "." + strings.Repeat("q", 91): true,
		made + ".duel": false, made + ".a.b": false, "7ZZZZZZZZZZZZZZZZZZZZZZZZZ.9": false,
	} {
		_, ok := matchmaking.QueueOf(id)
		require.Equal(t, !chosen, ok, id)
		if matchmaking.CheckTicketID(id) != nil {
			continue
		}
		err := matchmaking.CheckChosenID(id)
		require.Equal(t, chosen, err == nil, id)
		var clientErr *fault.Error
		if errors.As(err, &clientErr) {
			require.Equal(t, fault.SlugInvalidTicket, clientErr.Slug)
			require.Equal(t, "id", clientErr.Field)
		}
	}
	require.Error(t, matchmaking.CheckChosenID("a b"))
}

func TestBackfillIDs(t *testing.T) {
	t.Parallel()
	first, second := matchmaking.NewBackfillID("duel.1"), matchmaking.NewBackfillID("duel.1")
	require.Regexp(t, `^[0-9a-v]{26}\.duel\.1$`, first)
	require.Less(t, first, second)
	queue, ok := matchmaking.QueueOfBackfill(first)
	require.True(t, ok)
	require.Equal(t, "duel.1", queue)
	for _, id := range []string{"", first[:26], first[:27], "w" + first[1:], matchmaking.NewID("duel"), first + "{"} {
		_, ok := matchmaking.QueueOfBackfill(id)
		require.False(t, ok, id)
	}
	_, ok = matchmaking.QueueOf(first)
	require.False(t, ok, "it isn't the ID of a ticket")
}
