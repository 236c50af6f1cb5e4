package races_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

// TestCutFeeds cuts all connections with subscriptions while matches are assigned. Every waiting player still gets the
// assignment.
func TestCutFeeds(t *testing.T) {
	t.Parallel()
	test := func(t *testing.T, url string, nodes []*redistest.Node) {
		t.Helper()
		a := newArena(t, url, definition(t, "duel", `{}`))
		a.start(t, "a")
		a.start(t, "b")
		var cut int64
		stop := during(func(ctx context.Context) {
			r := a.random(-4)
			for wait(ctx, between(r, 0, 40*time.Millisecond)) {
				for _, n := range nodes {
					kill := n.Client().B().ClientKill().TypePubsub().Build()
					killed, err := n.Client().Do(context.WithoutCancel(ctx), kill).AsInt64()
					a.report(err)
					cut += killed
				}
			}
		})
		a.crowd(300, 3*time.Millisecond, func(r *rand.Rand) plan {
			p := steady("duel", 6)(r)
			p.noID, p.asks = r.IntN(2) == 0, between(r, 0, 20*time.Millisecond)
			return p
		})
		a.playing.Wait()
		stop()
		require.NotZero(t, cut)
		require.NotZero(t, a.verify(t)[matchmaking.MatchFound])
	}
	t.Run("standalone", func(t *testing.T) {
		t.Parallel()
		n := redistest.Start(t, redistest.Options{})
		test(t, n.URL(), []*redistest.Node{n})
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		c := redistest.StartCluster(t, redistest.Options{Replicas: -1})
		test(t, urlOf(c), c.Nodes())
	})
}
