package main

import (
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tidemark-dev/tidemark/internal/records/site"
	"github.com/tidemark-dev/tidemark/shard"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/shards"
)

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
		p := u.addNode("--cache", site.Kind("author").Name, "--dc", dc, "--host", host, "--load-rate", loadRate)
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
