package main

import (
	"time"
)

// Limits of the cost of reads through nodes, from the project's goals.
const (
	keysPerCore  = 100_000 // a second, of the client's CPU time
	silentRatio  = 1.5     // ratio of the p99 with a silent data centre to the p99 without
	bytesOfEntry = 64      // above key and value
)

// The sizes of the measurements.
const (
	entries  = 100_000
	perDC    = 4 // shards
	callers  = 4
	getPace  = 20 * time.Millisecond // of each caller while the time of a Get is measured
	readTime = 2 * time.Second       // of one round
)

var dcs = []string{"a", "b", "c"}

// measureShards measures the sharded read tier. Each node is a process of its own, and the clients run in another one.
func measureShards(b *bench) {
	u := b.start("--matchmaking", "off")
	defer u.stop()
	u.fillShards(entries)
	u.printf("\n## Shards\n\n%d entries of %d bytes in %d shards, each in %d data centres. Each node is a "+
		"process, and the clients run in another\none, all on the cores of this machine. A Get has %d keys and "+
		"asks the three nodes of each shard, %d in all, and uses\nthe first answers.\n\n",
		entries, len(entryValue), perDC, len(dcs), keysOfGet, perDC*len(dcs))
	u.measureTier()
	u.measureGrowth()
	u.measureMemory()
}

// measureTier measures Gets, and pings, of three data centres.
func (u *system) measureTier() {
	var all nodes
	defer func() { all.end() }()
	for _, dc := range dcs {
		all = append(all, u.startNodes(dc, perDC)...)
	}
	all.awaitReady()
	u.measureGets(all)
	u.measureSilence(all)
	u.measurePings(all)
}
