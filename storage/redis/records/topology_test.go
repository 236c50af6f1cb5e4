package records_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/records/site"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	redisrecords "github.com/tidemark-dev/tidemark/storage/redis/records"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

// A primary that was restarted, or promoted, has another life.
func TestLives(t *testing.T) {
	t.Parallel()
	sentinel := redistest.StartSentinel(t, redistest.Options{})
	conn := storetest.Connect(t, redis.Options{
		URL: strings.Join(sentinel.Addrs(), ","), Sentinel: redis.Sentinel{Master: redistest.MasterName},
		Timeout: time.Minute,
	})
	life := func() string {
		life, err := redisrecords.Life(t.Context(), conn)
		require.NoError(t, err)
		return life
	}
	before := life()
	sentinel.Failover(t)
	require.NotEqual(t, before, life())
}

// An unresponsive replica isn't among the nodes that values are read from.
func TestReplicaThatHangs(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, redistest.Options{})
	replica, options := nodes.Replica(t, 0), redis.Options{URL: strings.Join(nodes.Addrs(), ",")}
	set(t, storetest.Connect(t, options).Client(), "", 0, map[string]string{"1": "x"})
	var conn *redis.Conn
	require.Eventually(t, func() bool { // a cluster lists replicas only after they have responded
		conn = storetest.Connect(t, options)
		return conn.Client().Nodes()[replica.Addr()] != nil
	}, time.Minute, 100*time.Millisecond)
	values := redisrecords.NewValues(conn)
	replica.Pause(t)
	_, err := values.Life(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"1"}, rest(t, values.Walk(site.Kind("author"))))
}

// A walk that begins while a part of the Cluster has no primary waits for the next one.
func TestWalkDuringFailover(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, redistest.Options{})
	conn := storetest.Connect(t, redis.Options{URL: strings.Join(nodes.Addrs(), ","), Timeout: time.Minute})
	set(t, conn.Client(), "", 0, map[string]string{"1": "x", "2": "y", "3": "z"})
	slot := nodes.Slot("{1}")
	require.NoError(t, nodes.Owner(t, slot).Do(t, "WAIT", "1", "0").Error())
	nodes.Owner(t, slot).Kill(t)
	require.Equal(t, []string{"1", "2", "3"}, rest(t, redisrecords.NewValues(conn).Walk(site.Kind("author"))))
}
