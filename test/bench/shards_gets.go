package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/tidemark-dev/tidemark/test/report"
)

// read is the cost of reads in one round.
type read struct {
	outcome
	nodes time.Duration // CPU time of the nodes, or of Redis
}

// got returns the number of keys that the clients have received.
func (o outcome) got() float64 { return float64(len(o.Took) * o.Keys) }

// perCore returns the number of keys that the clients have received per second of their CPU time.
func (o outcome) perCore() float64 { return o.got() / o.CPU.Seconds() }

// perSecond returns the number of keys that the clients have received per second.
func (o outcome) perSecond() float64 { return o.got() / o.For.Seconds() }

// readFrom lets clients read, and measures the usage of nodes, or Redis, meanwhile.
func readFrom(c *clients, o order, used func() time.Duration) read {
	before := used()
	found := c.read(o)
	return read{outcome: found, nodes: used() - before}
}

// way is a way to read.
type way struct {
	name    string
	goal    bool
	redis   bool
	local   string // data centre that is asked first
	clients *clients
	reads   []read // one for each round
}

// measureGets reads as fast as the clients can, alternating between the ways.
func (u *system) measureGets(all nodes) {
	ways := []*way{
		{name: "through nodes", goal: true},
		{name: "through nodes, those of one data centre first", local: dcs[0]},
		{name: "from Redis, by MGET", redis: true},
	}
	for _, w := range ways {
		w.clients = u.startClients(all, setup{Redis: "unix://" + u.redis.socket, Entries: entries, Clients: 1,
			LocalDC: w.local})
		defer w.clients.end()
		w.clients.read(order{Redis: w.redis, Callers: callers, For: readTime / 4}) // connections, and buffers
	}
	for range u.rounds {
		for _, w := range ways {
			used := all.cpu
			if w.redis {
				used = u.redis.cpuTime
			}
			w.reads = append(w.reads, readFrom(w.clients, order{Redis: w.redis, Callers: callers, For: readTime / 2}, used))
		}
	}
	u.printGets(ways)
}

// printGets writes a row for each way to read. The others are compared with the last one.
func (u *system) printGets(ways []*way) {
	u.printf("| %d callers read at once | keys/s for a core of the client | goal | | keys/s | p50 | p99 | CPU of nodes "+
		"or Redis for a Get | CPU of the client, of that of MGET |\n"+
		"|---|---:|---:|---|---:|---:|---:|---:|---:|\n", callers)
	for _, w := range ways {
		var perCores, perSeconds, ratios []float64
		var took []time.Duration
		var used time.Duration
		for i, mget := range ways[len(ways)-1].reads {
			read := w.reads[i]
			perCores, perSeconds = append(perCores, read.perCore()), append(perSeconds, read.perSecond())
			ratios = append(ratios, mget.perCore()/read.perCore())
			took, used = append(took, read.Took...), used+read.nodes
		}
		slices.Sort(took)
		perCore, goal := median(perCores), " | "
		if w.goal {
			goal = fmt.Sprintf("≥ %d | %s", keysPerCore, report.Verdict(perCore >= keysPerCore))
		}
		u.printf("| %s | %.0f | %s | %.0f | %s | %s | %s | %.1f |\n", w.name, perCore, goal, median(perSeconds),
			report.Millis(quantile(took, 0.5)), report.Millis(quantile(took, 0.99)),
			report.Micros(used/time.Duration(max(1, len(took)))), median(ratios))
	}
	u.printf("\nMGET is one command over a Unix socket.\n")
}
