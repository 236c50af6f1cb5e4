package channels

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

// Servers read what the others announce, as long as it lasts.
func TestAnnounce(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]redis.Options{
		"standalone": {URL: redistest.Standalone(t).URL()}, "cluster": {URL: redistest.Cluster(t).Addrs()[0]},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options.KeyPrefix = redistest.Prefix(t)
			s := open(t, options)
			announce := func(server, configuration string, life time.Duration) []string {
				t.Helper()
				others, now, err := s.Announce(t.Context(),
					Announcement{Server: server, Configuration: configuration, Life: life})
				require.NoError(t, err)
				texts := make([]string, len(others))
				for i, announced := range others {
					texts[i] = announced.Configuration
					require.WithinRange(t, announced.Ends, now, now.Add(time.Minute))
				}
				return texts
			}
			require.Empty(t, announce("A", "1 a\n{", time.Minute))
			require.Empty(t, announce("A", "2 a\n{", time.Minute), "not its own")
			require.Equal(t, []string{"2 a\n{"}, announce("B", "", time.Minute))
			require.ElementsMatch(t, []string{"2 a\n{", ""}, announce("C", "c", time.Minute))
			require.ElementsMatch(t, []string{"", "c"}, announce("A", "2 a\n{", 0))
			require.Equal(t, []string{"c"}, announce("B", "", time.Millisecond))
			storetest.WaitFor(t, "the announcement of B to end", func() bool { return len(announce("D", "d", 0)) == 1 })
			require.Empty(t, announce("C", "c", 0))
			require.Empty(t, announce("D", "d", 0), "nothing is left")
			found, err := s.conn.Client().Do(t.Context(),
				s.conn.Client().B().Exists().Key(configurationsKey(s.conn.Prefix())).Build()).AsInt64()
			require.NoError(t, err)
			require.Zero(t, found)
		})
	}
}
