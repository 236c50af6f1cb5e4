package races_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

// TestEveryTicketEndsOnce runs players who come, cancel, read and expire, while servers take queues from each other,
// rivals match the same tickets, and many allocations take longer than tickets or claims live.
func TestEveryTicketEndsOnce(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, url string) {
		const lives = `"pendingTimeout":"250ms","ticketTTL":"5m"`
		duel := definition(t, "duel", `{`+lives+`}`)
		squad := definition(t, "squad", `{"match":{"teams":2,"teamSize":2},"reveal":"opponents",`+lives+`}`)
		a := newArena(t, url, duel, squad)
		a.allocate = slowAllocations(a.seed)
		for _, name := range []string{"a", "b", "c"} {
			a.start(t, name)
		}
		var stops []func()
		for i, d := range a.definitions {
			stops = append(stops, a.expireLeases(d.Name), a.rival(d, 2*i), a.rival(d, 2*i+1))
		}
		a.crowd(160, 8*time.Millisecond, cancellingPlayers("duel"))
		a.crowd(161, 8*time.Millisecond, cancellingPlayers("squad"))
		a.playing.Wait()
		for _, stop := range stops {
			stop()
		}
		counts := a.verify(t)
		for _, status := range []matchmaking.Status{matchmaking.MatchFound, matchmaking.Cancelled,
			matchmaking.Expired} {
			require.NotZero(t, counts[status], "no ticket is %s", status)
		}
		require.NotZero(t, a.ledger.conflicts[matchmaking.ConflictNotWaiting]+a.ledger.conflicts[matchmaking.ConflictClaim])
	})
}

// cancellingPlayers returns plans of players: many cancel at any time, or have tickets that live hardly longer than an
// allocation.
func cancellingPlayers(queue string) func(*rand.Rand) plan {
	return func(r *rand.Rand) plan {
		p := plan{queue: queue, looks: r.IntN(4), noID: r.IntN(2) == 0, asks: between(r, 0, 100*time.Millisecond)}
		switch n := r.IntN(10); {
		case n < 3:
			p.leaves = between(r, time.Millisecond, 300*time.Millisecond)
		case n < 5:
			p.ttl = between(r, 200*time.Millisecond, 500*time.Millisecond)
		case n < 6:
			p.ttl = between(r, 200*time.Millisecond, 300*time.Millisecond)
			p.leaves = between(r, 150*time.Millisecond, 350*time.Millisecond)
		}
		return p
	}
}

// slowAllocations take from no time to longer than the claim; a tenth of them ignore its deadline.
func slowAllocations(seed uint64) func(context.Context, *server, matchmaking.Proposal) error {
	return func(ctx context.Context, _ *server, p matchmaking.Proposal) error {
		r := rand.New(rand.NewPCG(seed, uint64(p.ID[ulid.EncodedSize-1])<<8|uint64(p.ID[ulid.EncodedSize-2])))
		switch n := r.IntN(10); {
		case n < 5:
			wait(ctx, between(r, 0, 20*time.Millisecond))
		case n < 9:
			wait(ctx, between(r, 50*time.Millisecond, 230*time.Millisecond))
		default:
			wait(context.WithoutCancel(ctx), 300*time.Millisecond)
			return nil
		}
		return ctx.Err()
	}
}
