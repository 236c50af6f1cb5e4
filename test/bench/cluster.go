package main

import (
	"cmp"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"time"

	"github.com/tidemark-dev/tidemark/test/load"
	"github.com/tidemark-dev/tidemark/test/report"
)

// The load on a Cluster: as many players and services for any number of queues.
const (
	clusterPlayers  = 1024
	clusterServices = 3
)

// onCluster is the result for a number of queues.
type onCluster struct {
	load.Matched
	queues int
	usage  usage // per ticket
}

// cluster measures how the rate grows with the number of queues.
func cluster(b *bench) {
	b.printf("\n## On a Cluster\n\n%d players, on a Cluster of three nodes with append-only files, through %d "+
		"services, in first-come queues that are\nspread over the nodes. All processes share the cores of this "+
		"machine: the last columns are their shares.\n\n"+
		"| queues | tickets/s | p50 | p99 | services | Redis | load | together |\n"+
		"|---:|---:|---:|---:|---:|---:|---:|---:|\n", clusterPlayers, clusterServices)
	var all []onCluster
	for _, queues := range []int{1, 2, 4, 8} {
		found := b.measureCluster(queues)
		cores := found.Window.Seconds() * float64(runtime.NumCPU())
		tickets := float64(len(found.Took))
		share := func(perTicket time.Duration) float64 { return 100 * perTicket.Seconds() * tickets / cores }
		services, redis, load := share(found.usage.server), share(found.usage.redis), share(found.usage.load)
		progress("%d queues on a Cluster: %.0f tickets/s", queues, found.PerSecond())
		b.printf("| %d | %.0f | %s | %s | %.0f%% | %.0f%% | %.0f%% | %.0f%% |\n", queues, found.PerSecond(),
			report.Millis(found.Quantile(0.5)), report.Millis(found.Quantile(0.99)), services, redis, load, services+redis+load)
		all = append(all, found)
	}
	b.printf("\nThe cost of a ticket there:\n\n" +
		"| queues | services | Redis | Redis receives | Redis sends | calls | of these |\n" +
		"|---:|---:|---:|---:|---:|---:|---|\n")
	for _, c := range all {
		b.printf("| %d | %s | %s | %.0f bytes | %.0f bytes | %.2f | %s |\n", c.queues, report.Micros(c.usage.server),
			report.Micros(c.usage.redis), c.usage.in, c.usage.out, c.usage.calls(), c.usage.kinds())
	}
	b.printf("\nThere is less than one publish for each ticket, since some assignments aren't published yet when " +
		"the load ends.\n")
	b.printHundredNodes(slices.MaxFunc(all, func(a, b onCluster) int { return cmp.Compare(a.usage.redis, b.usage.redis) }))
}

// printHundredNodes computes the capacity of a large Cluster at the highest measured cost. A node runs all commands on
// one core.
func (b *bench) printHundredNodes(c onCluster) {
	const nodes, share = 100, 0.7 // of its core that a node may use
	perNode := share / c.usage.redis.Seconds()
	services := perNode * nodes * c.usage.server.Seconds()
	b.printf("\nProjection: a node runs all commands on one core. At %s for each ticket, and %.0f%% of the core, "+
		"it handles %.0f\ntickets a second; %d nodes handle %.1f million, if at least as many queues are spread "+
		"evenly over them: a queue is\nin one slot, and so on one node. Each node then receives %.0f and sends "+
		"%.0f Mbit/s, and the services use %.0f\ncores. No operation uses two nodes, and nothing is sent to all "+
		"nodes, so the cost of a ticket doesn't grow with\ntheir number.\n",
		report.Micros(c.usage.redis), share*100, perNode, nodes, perNode*nodes/1e6, perNode*c.usage.in*8/1e6,
		perNode*c.usage.out*8/1e6, services)
}

func (b *bench) measureCluster(queues int) onCluster {
	u := b.startOn(b.openCluster())
	defer u.stop()
	players := load.Players{
		Frontends: []string{u.server.GRPC}, Count: clusterPlayers, Warmup: 2 * warmup, Window: window,
		Queues: u.defineQueues(queues),
	}
	meter := meter{system: u, servers: []*service{u.server}}
	for range clusterServices - 1 {
		server := u.addServer()
		players.Frontends, meter.servers = append(players.Frontends, server.GRPC), append(meter.servers, server)
	}
	found := onCluster{queues: queues, Matched: u.play(players, meter.read)}
	found.usage = meter.perTicket(len(found.Took))
	return found
}

// defineQueues defines queues of which every node has as many, as far as possible.
func (u *system) defineQueues(n int) (names []string) {
	for i := 0; len(names) < n; i++ {
		name := fmt.Sprintf("queue-%d", i)
		slot, err := u.redis.do("CLUSTER", "KEYSLOT", name).AsInt64()
		u.Must(err)
		if int(slot)*3/16384 == len(names)%3 {
			u.admin(http.MethodPut, "/v1/queues/"+name, "{}")
			names = append(names, name)
		}
	}
	return names
}
