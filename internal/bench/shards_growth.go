package main

import (
	"fmt"
	"runtime"
	"slices"
	"time"
)

// measureGrowth reads from data centres with growing numbers of nodes, and so with smaller shards.
func (u *system) measureGrowth() {
	u.printf("\nOne data centre of more and more nodes, each with its part of the entries. Nodes and clients share %d "+
		"cores, so that the rate doesn't grow as on\nmachines of their own. The last column is what the nodes could "+
		"answer with a core each, at what a key costs them here. A call costs more than its\nkeys: Gets must grow with "+
		"the nodes, or there must be more of them at a time, for the capacity to do so.\n\n"+
		"| nodes | keys of a Get | keys/s here | nodes | client | CPU for a key: nodes | client | on paper |\n"+
		"|---:|---:|---:|---:|---:|---:|---:|---:|\n", runtime.NumCPU())
	for _, n := range []int{1, 2, 4, 8} {
		u.measureSize(n)
	}
}

func (u *system) measureSize(n int) {
	all := u.startNodes(fmt.Sprintf("of-%d", n), n)
	defer all.end()
	all.awaitReady()
	c := u.startClient(all)
	defer c.end()
	c.read(order{Callers: callers, For: readTime / 4})
	for _, keys := range slices.Compact([]int{keysOfGet, n * keysOfGet}) {
		found := readFrom(c, order{Keys: keys, Callers: callers, For: readTime / 2}, all.cpu)
		ofNodes, ofClient := found.nodes.Seconds()/found.got(), found.CPU.Seconds()/found.got()
		share := func(used time.Duration) float64 {
			return 100 * used.Seconds() / found.For.Seconds() / float64(runtime.NumCPU())
		}
		u.printf("| %d | %d | %.0f | %.0f%% | %.0f%% | %.2f µs | %.2f µs | %.0f keys/s |\n", n, keys, found.perSecond(),
			share(found.nodes), share(found.CPU), ofNodes*1e6, ofClient*1e6, float64(n)/ofNodes)
	}
}
