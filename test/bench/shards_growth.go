package main

import (
	"fmt"
	"runtime"
	"slices"
	"time"
)

// measureGrowth reads from data centres with growing numbers of nodes, and so with smaller shards.
func (u *system) measureGrowth() {
	u.printf("\nOne data centre with a growing number of nodes, each with its part of the entries. Nodes and "+
		"clients share %d cores,\nso the rate doesn't grow as it would on separate machines. The last column is "+
		"the rate that the nodes could reach\nwith a core each, at the measured cost of a key. A call has a cost "+
		"besides that of its keys: for the capacity to\ngrow with the nodes, Gets must have more keys, or more "+
		"of them must run at a time.\n\n"+
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
