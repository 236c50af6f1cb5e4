package redistest_test

import (
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/test/redistest"
)

func TestSentinelsPromoteTheReplica(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]redistest.Options{
		"plain":        {},
		"TLS and user": {TLS: true, Username: "alice", Password: "secret"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.StartSentinel(t, o)
			client, err := rueidis.NewClient(rueidis.ClientOption{
				InitAddress:  s.Addrs(),
				Username:     o.Username,
				Password:     o.Password,
				TLSConfig:    s.Nodes()[0].TLSConfig(),
				DisableCache: true,
				Sentinel: rueidis.SentinelOption{
					MasterSet: redistest.MasterName,
					TLSConfig: s.Nodes()[0].TLSConfig(),
				},
			})
			require.NoError(t, err)
			t.Cleanup(client.Close)
			require.NoError(t, client.Do(t.Context(), client.B().Set().Key("k").Value("v").Build()).Error())

			killed, promoted := s.Failover(t)
			require.Same(t, s.Nodes()[0], killed)
			require.NoError(t, promoted.Do(t, "SET", "k", "w").Error())
			killed.Restart(t)
			s.AwaitOK(t)
		})
	}
}
