package main

import (
	"math"
	"time"

	"github.com/tidemark-dev/tidemark/test/report"
)

// The number of clients whose pings are counted, and for how long. They ping more often than usual, so that their CPU
// time can be measured.
const (
	pingClients = 8
	pingPeriod  = 100 * time.Millisecond
	pingTime    = 5 * time.Second
)

// measurePings counts the pings of clients that don't read, and computes the cost of pings in a large tier.
func (u *system) measurePings(all nodes) {
	c := u.startClients(all, setup{Clients: pingClients, Period: pingPeriod})
	defer c.end()
	c.read(order{For: pingTime / 5}) // connections
	started, before := time.Now(), all.requests()
	found := readFrom(c, order{For: pingTime}, all.cpu)
	between := time.Since(started) // two readings of the same node
	after := all.requests()
	pings, hosts := after-before, len(all)
	perSecond := pings / between.Seconds()
	want := float64(hosts*pingClients) / pingPeriod.Seconds()
	ofClient, ofNode := found.CPU.Seconds()/pings, found.nodes.Seconds()/pings
	u.printf("\n%d clients ping %d nodes every %s, which is %.1f pings a second: nodes × clients / period. The "+
		"nodes counted %.1f\n(%s). A ping costs the client %s of CPU time, and a node %s, including the work of "+
		"idle processes.\n",
		pingClients, hosts, pingPeriod, want,
		perSecond,
		report.Verdict(math.Abs(perSecond-want) <= want/20), micros(ofClient), micros(ofNode))
	u.printf("\nProjection for 1000 nodes (a ping is a request and an answer):\n\n" +
		"| clients | options of the clients | pings/s, each client and all | each node | of a core: client | " +
		"node |\n" +
		"|---:|---|---:|---:|---:|---:|\n")
	for _, row := range []struct {
		clients float64
		options string
		each    float64 // pings a second, of a client
	}{
		{100, "PingPeriod 1 s, the default", 1000},
		{1000, "PingPeriod 1 s, the default", 1000},
		{1000, "PingPeriod 10 s", 100},
		{1000, "PingRate 50: a node is pinged every 20 s", 50},
	} {
		perNode := row.each * row.clients / 1000
		u.printf("| %.0f | %s | %.0f, %.0f | %.0f | %.1f%% | %.1f%% |\n", row.clients, row.options, row.each,
			row.each*row.clients, perNode,
			100*row.each*ofClient, 100*perNode*ofNode)
	}
	u.printf("\nEach answer to a Get contains what a ping returns: with SkipPings, nodes that have answered a " +
		"client within\nPingPeriod aren't pinged.\n")
}
