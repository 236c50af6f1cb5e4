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

// cluster measures how the rate grows with the number of queues.
func cluster(b *bench) {
	b.printf("%d players, on a Cluster of three nodes with append-only files, through %d services, in first-come queues "+
		"that are\nspread over the nodes. All processes share the cores of this machine: the last columns are their "+
		"shares.\n\n", clusterPlayers, clusterServices)
	b.table("queues: | tickets/s: | p50: | p99: | services: | Redis: | load: | together:")
	counts := []int{1, 2, 4, 8}
	all := make([]playedDuels, len(counts))
	for i, queues := range counts {
		found := b.measureCluster(queues)
		cores := found.Window.Seconds() * float64(runtime.NumCPU())
		share := func(perTicket time.Duration) string {
			return fmt.Sprintf("%.0f%%", 100*perTicket.Seconds()*float64(len(found.Took))/cores)
		}
		b.row(queues, found.PerSecond(), found.Quantile(0.5), found.Quantile(0.99), share(found.server), share(found.redis),
			share(found.load), share(found.server+found.redis+found.load))
		all[i] = found
	}
	b.printf("\nThe cost of a ticket there:\n\n")
	b.table("queues: | services: | Redis: | Redis receives: | Redis sends: | calls: | of these")
	for i, c := range all {
		b.row(counts[i], report.Micros(c.server), report.Micros(c.redis), fmt.Sprintf("%.0f bytes", c.in),
			fmt.Sprintf("%.0f bytes", c.out), fmt.Sprintf("%.2f", c.calls()), c.kinds())
	}
	b.printf("\nThere is less than one publish for each ticket, since some assignments aren't published yet when " +
		"the load ends.\n")
	b.printHundredNodes(slices.MaxFunc(all, func(a, b playedDuels) int { return cmp.Compare(a.redis, b.redis) }).usage)
}

// printHundredNodes computes the capacity of a large Cluster at the highest measured cost. A node runs all commands on
// one core.
func (b *bench) printHundredNodes(c usage) {
	const nodes, share = 100, 0.7 // of its core that a node may use
	perNode := share / c.redis.Seconds()
	services := perNode * nodes * c.server.Seconds()
	b.printf("\nProjection: a node runs all commands on one core. At %s for each ticket, and %.0f%% of the core, "+
		"it handles %.0f\ntickets a second; %d nodes handle %.1f million, if at least as many queues are spread "+
		"evenly over them: a queue is\nin one slot, and so on one node. Each node then receives %.0f and sends "+
		"%.0f Mbit/s, and the services use %.0f\ncores. No operation uses two nodes, and nothing is sent to all "+
		"nodes, so the cost of a ticket doesn't grow with\ntheir number.\n",
		report.Micros(c.redis), share*100, perNode, nodes, perNode*nodes/1e6, perNode*c.in*8/1e6,
		perNode*c.out*8/1e6, services)
}

func (b *bench) measureCluster(queues int) playedDuels {
	u := b.startOn(b.openCluster())
	defer u.stop()
	players := load.Players{Count: clusterPlayers, Warmup: 2 * warmup, Window: window, Queues: u.defineQueues(queues)}
	servers := []*service{u.server}
	for range clusterServices - 1 {
		servers = append(servers, u.addServer())
	}
	for _, s := range servers {
		players.Frontends = append(players.Frontends, s.GRPC)
	}
	return u.play(players, &meter{system: u, servers: servers})
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
