package redis_test

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

// A primary that is cut off from its replica goes on answering. Once the replica has taken over, what was written
// meanwhile is reported as lost, with the time since when.
func TestFailovers(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]bool{"with all writes": false, "without the last writes": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			primary := redistest.Start(t, redistest.Options{})
			replica := redistest.StartReplica(t, primary)
			address, link, registry := redistest.Forward(t, primary), redistest.Forward(t, primary), prometheus.NewRegistry()
			options := hosted(primary, address.Addr())
			options.Metrics = registry
			var log logged
			options.Logger = slog.New(slog.NewTextHandler(&log, nil))
			c := storetest.Connect(t, options)
			host, port, err := net.SplitHostPort(link.Addr())
			require.NoError(t, err)
			require.NoError(t, replica.Do(t, "REPLICAOF", host, port).Error())
			ctx, stop := context.WithCancel(t.Context())
			var watching sync.WaitGroup
			watching.Go(func() { _ = c.WatchFailovers(ctx) })
			defer watching.Wait()
			defer stop()
			write := func(value string) {
				require.NoError(t, primary.Do(t, "SET", "key", value).Error())
			}
			write("kept")
			storetest.WaitFor(t, "the replica to have it", func() bool {
				value, err := replica.Do(t, "GET", "key").ToString()
				return err == nil && value == "kept"
			})
			awaitAsked(t, primary)
			began := time.Now()
			if lost {
				link.Refuse(true)
				link.Cut()
				write(strings.Repeat("lost", 1000))
				awaitAsked(t, primary)
			}
			require.NoError(t, replica.Do(t, "REPLICAOF", "NO", "ONE").Error())
			address.SetTarget(replica.Addr())
			address.Cut()
			counted := func(metric string) float64 { return storetest.Counted(t, registry, metric) }
			storetest.WaitFor(t, "the change to be noticed", func() bool { return counted("tidemark_redis_failovers_total") == 1 })
			if !lost {
				require.True(t, log.has(`msg="redis has another primary" from=`))
				require.Zero(t, counted("tidemark_redis_lost_until_timestamp_seconds"))
				return
			}
			require.True(t, log.has(`level=ERROR msg="redis has another primary, which lacks writes of the former one" from=`))
			require.True(t, log.has(" lostBytes=4"), "and a little more than 4,000")
			since, until := counted("tidemark_redis_lost_since_timestamp_seconds"),
				counted("tidemark_redis_lost_until_timestamp_seconds")
			require.LessOrEqual(t, since, float64(began.Unix()))
			require.LessOrEqual(t, float64(began.Unix()), until)
		})
	}
}

// In a Cluster each primary has a history of its own.
func TestFailoversOfACluster(t *testing.T) {
	t.Parallel()
	cluster, registry := redistest.StartCluster(t, redistest.Options{}), prometheus.NewRegistry()
	c := storetest.Connect(t, redis.Options{URL: strings.Join(cluster.Addrs(), ","), Metrics: registry})
	ctx, stop := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() { _ = c.WatchFailovers(ctx) })
	defer watching.Wait()
	defer stop()
	const key = "key"
	slot := cluster.Slot(key)
	awaitAsked(t, cluster.Owner(t, slot))
	cluster.Switchover(t, slot)
	counted := func(metric string) float64 { return storetest.Counted(t, registry, metric) }
	storetest.WaitFor(t, "the change to be noticed", func() bool { return counted("tidemark_redis_failovers_total") == 1 })
	require.Zero(t, counted("tidemark_redis_lost_until_timestamp_seconds"))
	owner := cluster.Owner(t, slot)
	awaitAsked(t, owner)
	cluster.FailoverThatLoses(t, slot, func() {
		require.NoError(t, owner.Do(t, "SET", key, "lost").Error())
		awaitAsked(t, owner)
	})
	storetest.WaitFor(t, "the loss to be noticed", func() bool {
		return counted("tidemark_redis_failovers_total") == 2 && counted("tidemark_redis_lost_until_timestamp_seconds") > 0
	})
}

// awaitAsked waits until a server has been asked for its history twice more: what it had before is known then.
func awaitAsked(t *testing.T, n *redistest.Node) {
	t.Helper()
	asked := func() int { return n.Calls(t, "info") }
	looks, before := 0, asked()
	storetest.WaitFor(t, "the histories to be read", func() bool {
		looks++
		return asked() >= before+looks+2 // the others are these
	})
}
