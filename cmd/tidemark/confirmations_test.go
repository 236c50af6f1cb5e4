package main

import (
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/wire"
	"github.com/tidemark-dev/tidemark/storage"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

// A number of confirmations is enough if it is a majority of the replicas that there are.
func TestEnoughConfirmations(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ asked, min, max, warnings int }{
		{1, 1, 1, 0}, {1, 2, 2, 1}, {2, 2, 2, 0}, {1, 3, 3, 1}, {2, 3, 3, 0}, {2, 4, 4, 1}, {3, 4, 4, 0},
		{1, 0, 0, 1},                             // none confirms
		{2, 1, 1, 1}, {1, 1, 2, 1}, {2, 1, 2, 1}, // a Cluster
		{1, 0, 2, 2},
	} {
		d := storage.Durability{Replicas: c.min, MostReplicas: c.max}
		require.Len(t, confirmation{"channel-replicas", c.asked}.warnings(d), c.warnings, "%+v", c)
	}
}

// TestTooFewConfirmations: options that ask for fewer replicas than a majority are reported at the start, by doctor and
// on the console.
func TestTooFewConfirmations(t *testing.T) {
	t.Parallel()
	primary := redistest.Start(t, redistest.Options{})
	redistest.StartReplica(t, primary)
	redistest.StartReplica(t, primary)
	const few = "channel-replicas is 1, and a primary has 2 replicas: a failover to one that hasn't confirmed loses " +
		"writes that were answered; set it to 2 or more"
	asks := []string{"--channel-replicas=1", "--ticket-replicas=2", `--channels=[{"pattern":"tmp","replicas":1}]`}
	var out strings.Builder
	runHere(t.Context(), &out, &out, nil, append([]string{"doctor", "--redis", primary.URL(), "--listen", "127.0.0.1:0"},
		asks...)...)
	require.Contains(t, out.String(), "confirmations  "+few+"\n")
	require.Regexp(t, `(?m)^warning +channels +confirmations +replicas of the channels tmp is 1, and`, out.String())
	require.Regexp(t, `(?m)^ok +channels +confirmations +ticket-replicas is 2 of 2 replicas$`, out.String())

	s := startServer(t, append([]string{"--redis", primary.URL()}, asks...)...)
	eventually(t, func() bool {
		return slices.ContainsFunc(shownBy[wire.Problems](t, s, "/v1/problems").Problems, func(p client.FoundProblem) bool {
			return p.Code == "RedisConfirmations" && p.Text == "Redis of channels: "+few &&
				strings.HasSuffix(p.Docs, "/docs/durability.md#replicas")
		})
	})
	var log strings.Builder
	t.Run("the start", func(t *testing.T) { // whose log is read when the service has stopped
		_, err := startHere(t, slog.NewTextHandler(&log, nil), append([]string{"--redis=" + primary.URL()}, asks...)...)
		require.NoError(t, err)
	})
	require.Contains(t, log.String(), `level=WARN msg="`+few+`"`)
}
