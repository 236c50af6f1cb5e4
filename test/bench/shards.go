package main

import (
	"fmt"
	"log/slog"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tidemark-dev/tidemark/internal/records/site"
	"github.com/tidemark-dev/tidemark/shard"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/shards"
	"github.com/tidemark-dev/tidemark/test/report"
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
	u.printf("%d entries of %d bytes in %d shards, each in %d data centres. Each node is a process, and the clients run in "+
		"another\none, all on the cores of this machine. A Get has %d keys and asks the three nodes of each shard, %d in "+
		"all, and uses\nthe first answers.\n\n",
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

// read is the cost of reads in one round.
type read struct {
	outcome
	nodes time.Duration // CPU time of the nodes, or of Redis
}

// keys returns the number of keys that the clients have received, perCore that per second of their CPU time, and
// perSecond that per second.
func (r read) keys() float64      { return float64(len(r.Took) * r.Keys) }
func (r read) perCore() float64   { return r.keys() / r.CPU.Seconds() }
func (r read) perSecond() float64 { return r.keys() / r.For.Seconds() }

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
}

// measureGets reads as fast as the clients can, alternating between the ways. The others are compared with the last one.
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
	reads := turns(u.rounds, ways, func(_ int, w *way) read {
		used := all.cpu
		if w.redis {
			used = u.redis.cpu
		}
		return readFrom(w.clients, order{Redis: w.redis, Callers: callers, For: readTime / 2}, used)
	})
	u.table(fmt.Sprintf("%d callers read at once | keys/s for a core of the client: | goal: |  | keys/s: | p50: | p99: | "+
		"CPU of nodes or Redis for a Get: | CPU of the client, of that of MGET:", callers))
	for i, w := range ways {
		var ratios []float64
		var took []time.Duration
		var used time.Duration
		for round, r := range reads[i] {
			ratios = append(ratios, reads[len(ways)-1][round].perCore()/r.perCore())
			took, used = append(took, r.Took...), used+r.nodes
		}
		perCore := median(reads[i], read.perCore)
		var goal, verdict any = "", ""
		if w.goal {
			goal, verdict = fmt.Sprint("≥ ", keysPerCore), perCore >= keysPerCore
		}
		u.row(w.name, perCore, goal, verdict, median(reads[i], read.perSecond), report.Quantile(took, 0.5),
			report.Quantile(took, 0.99), report.Micros(used/time.Duration(max(1, len(took)))),
			fmt.Sprintf("%.1f", median(ratios, func(r float64) float64 { return r })))
	}
	u.printf("\nMGET is one command over a Unix socket.\n")
}

// silenceRounds is the number of times that a data centre is silent.
const silenceRounds = 5

// measureSilence stops the processes of one data centre after the other, so that they don't answer but keep their
// connections open. It compares the duration of Gets with that while all processes run.
func (u *system) measureSilence(all nodes) {
	c := u.startClient(all)
	defer c.end()
	paced := func(length time.Duration) order { return order{Callers: callers, For: length, Pace: getPace} }
	c.read(paced(readTime / 2))
	var with, without []time.Duration
	for round := range silenceRounds {
		without = append(without, c.read(paced(readTime)).Took...)
		dc := round % len(dcs)
		stopped := all[dc*perDC : (dc+1)*perDC] // for much less than the duration of their leases
		stopped.signal(syscall.SIGSTOP)
		with = append(with, c.read(paced(readTime)).Took...)
		stopped.signal(syscall.SIGCONT)
		stopped.awaitReady()
		c.read(paced(readTime / 4)) // the backlog is answered meanwhile
	}
	ratio := float64(report.Quantile(with, 0.99)) / float64(report.Quantile(without, 0.99))
	u.printf("\n%d Gets a second are measured while all nodes run, and in turns while the nodes of one data "+
		"centre are stopped:\ntheir connections stay open, but they don't answer.\n\n", callers*int(time.Second/getPace))
	u.table("nodes | Gets: | p50: | p99: | of that without: | goal: | ")
	u.row("all run", len(without), report.Quantile(without, 0.5), report.Quantile(without, 0.99), "", "", "")
	u.row("one data centre is silent", len(with), report.Quantile(with, 0.5), report.Quantile(with, 0.99),
		fmt.Sprintf("%.2f", ratio), fmt.Sprintf("≤ %.1f", silentRatio), ratio <= silentRatio)
}

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
	micros := func(seconds float64) string { return report.Micros(time.Duration(seconds * 1e9)) }
	u.printf("\n%d clients ping %d nodes every %s, which is %.1f pings a second: nodes × clients / period. The "+
		"nodes counted %.1f\n(%s). A ping costs the client %s of CPU time, and a node %s, including the work of "+
		"idle processes.\n",
		pingClients, hosts, pingPeriod, want, perSecond,
		report.Verdict(math.Abs(perSecond-want) <= want/20), micros(ofClient), micros(ofNode))
	u.printf("\nProjection for 1000 nodes (a ping is a request and an answer):\n\n")
	u.table("clients: | options of the clients | pings/s, each client and all: | each node: | of a core: client: | node:")
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
		u.row(row.clients, row.options, fmt.Sprintf("%.0f, %.0f", row.each, row.each*row.clients), perNode,
			fmt.Sprintf("%.1f%%", 100*row.each*ofClient), fmt.Sprintf("%.1f%%", 100*perNode*ofNode))
	}
	u.printf("\nEach answer to a Get contains what a ping returns: with SkipPings, nodes that have answered a " +
		"client within\nPingPeriod aren't pinged.\n")
}

// measureGrowth reads from data centres with growing numbers of nodes, and so with smaller shards.
func (u *system) measureGrowth() {
	u.printf("\nOne data centre with a growing number of nodes, each with its part of the entries. Nodes and "+
		"clients share %d cores,\nso the rate doesn't grow as it would on separate machines. The last column is "+
		"the rate that the nodes could reach\nwith a core each, at the measured cost of a key. A call has a cost "+
		"besides that of its keys: for the capacity to\ngrow with the nodes, Gets must have more keys, or more "+
		"of them must run at a time.\n\n", runtime.NumCPU())
	u.table("nodes: | keys of a Get: | keys/s here: | nodes: | client: | CPU for a key: nodes: | client: | on paper:")
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
		ofNodes, ofClient := found.nodes.Seconds()/found.keys(), found.CPU.Seconds()/found.keys()
		share := func(used time.Duration) string {
			return fmt.Sprintf("%.0f%%", 100*used.Seconds()/found.For.Seconds()/float64(runtime.NumCPU()))
		}
		u.row(n, keys, found.perSecond(), share(found.nodes), share(found.CPU), fmt.Sprintf("%.2f µs", ofNodes*1e6),
			fmt.Sprintf("%.2f µs", ofClient*1e6), fmt.Sprintf("%.0f keys/s", float64(n)/ofNodes))
	}
}

// manyEntries is the number of entries of a node whose memory is measured.
const manyEntries = 1_000_000

// measureMemory compares the memory of a node that has many entries with that of one that has few.
func (u *system) measureMemory() {
	fewLive, fewResident := u.nodeMemory("few")
	u.fillShards(manyEntries)
	live, resident := u.nodeMemory("many")
	keys := 0
	for i := entries; i < manyEntries; i++ {
		keys += len(strconv.Itoa(i))
	}
	const added = manyEntries - entries
	each := float64(keys)/added + float64(len(entryValue))
	live, resident = (live-fewLive)/added-each, (resident-fewResident)/added-each
	u.printf("\n")
	u.table("entries of a node: | key and value: | memory above them, as the garbage collector leaves it: | goal: |  | " +
		"resident:")
	format := func(n float64) string { return fmt.Sprintf("%.1f bytes", n) }
	u.row(manyEntries, format(each), format(live), fmt.Sprintf("≤ %d bytes", bytesOfEntry), live <= bytesOfEntry,
		format(resident))
}

// nodeMemory returns the memory of a node with all entries, in bytes. Go collects garbage often, so that little garbage
// is resident, and once more after all entries are loaded.
func (u *system) nodeMemory(dc string) (live, resident float64) {
	u.Must(os.Setenv("GOGC", "10"))
	all := u.startNodes(dc, 1)
	u.Must(os.Unsetenv("GOGC"))
	defer all.end()
	all.awaitReady()
	u.awaitCollection(all)
	return all[0].live(), all[0].resident()
}

// awaitCollection reads from a node until it has collected its garbage.
func (u *system) awaitCollection(all nodes) {
	c := u.startClient(all)
	defer c.end()
	collected := func() float64 { return all[0].metric("go_memstats_last_gc_time_seconds") }
	for loaded := collected(); collected() == loaded; {
		c.read(order{Callers: callers, For: readTime / 10})
	}
}

// entryValue is the value of an entry.
var entryValue = `{"id":1,"name":"Ann","bio":"` + strings.Repeat("x", 172) + `"}`

// fillShards stores the given number of entries.
func (u *system) fillShards(entries int) {
	const script = `for i = tonumber(ARGV[1]), tonumber(ARGV[2]) do
		redis.call('SET', ARGV[3] .. string.format('%d', i) .. ARGV[4], ARGV[5])
	end
	return 1`
	before, after, _ := strings.Cut(site.Kind("author").Key("0"), "0")
	for from := 0; from < entries; from += 10_000 {
		to := min(from+10_000, entries) - 1
		u.redis.do("EVAL", script, "0", strconv.Itoa(from), strconv.Itoa(to), before, after, entryValue)
	}
}

// nodes are the nodes of some data centres, each a process.
type nodes []node

type node struct {
	*service
	dc string
}

// loadRate is so high that it doesn't slow a node.
const loadRate = "1000000"

// startNodes gives a data centre a layout, and starts a node for each of its shards.
func (u *system) startNodes(dc string, count int) (started nodes) {
	conn, err := redis.Connect(u.Context(), redis.Options{URL: "unix://" + u.redis.socket,
		Logger: slog.New(slog.DiscardHandler)})
	u.Must(err)
	defer conn.Close()
	_, err = shards.New(conn).SetLayout(u.Context(), site.Kind("author").Name, dc, 0, shard.Even(count))
	u.Must(err)
	for i := range count {
		host := fmt.Sprintf("%s-%d", dc, i)
		args := append([]string{"shards", "serve", "--log-level", "error", "--cache", site.Kind("author").Name, "--dc", dc,
			"--host", host, "--load-rate", loadRate}, u.redis.args...)
		p := u.run("node", u.binary, args, "--admin-listen", "--listen")
		started = append(started, node{service: p, dc: dc})
	}
	return started
}

// awaitReady returns when all nodes have loaded their shards.
func (all nodes) awaitReady() {
	for _, n := range all {
		n.bench.Must(n.Await(n.bench.Context(), "/readyz"))
	}
}

// end ends the nodes.
func (all nodes) end() {
	for _, n := range all {
		n.end(syscall.SIGTERM)
	}
}

// signal sends the nodes a signal.
func (all nodes) signal(s syscall.Signal) {
	for _, n := range all {
		n.bench.Must(n.Signal(s))
	}
}

// cpu returns the CPU time that the nodes have used together.
func (all nodes) cpu() (sum time.Duration) {
	for _, n := range all {
		sum += n.cpu()
	}
	return sum
}

// requests returns how many requests the nodes have answered.
func (all nodes) requests() (sum float64) {
	for _, n := range all {
		sum += n.labelled("tidemark_shard_node_requests_total", "cache")[site.Kind("author").Name]
	}
	return sum
}
