package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/storage/managed"
	"github.com/tidemark-dev/tidemark/test/process"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

// redisServers is one Redis, or a Cluster. A method that fails ends the part of the benchmarks.
type redisServers struct {
	bench  *bench
	socket string   // unless it is a Cluster
	args   []string // of serve
	nodes  []rueidis.Client
	undo   []func() error
}

// onClose registers a function for close, which calls the last one first.
func (r *redisServers) onClose(undo func() error) { r.undo = append(r.undo, undo) }

// close stops Redis. It may be called again.
func (r *redisServers) close() {
	for ; len(r.undo) > 0; r.undo = r.undo[:len(r.undo)-1] {
		if err := r.undo[len(r.undo)-1](); err != nil {
			progress("stop Redis: %v", err)
		}
	}
}

// openRedis runs Redis as a bare `tidemark serve` does: append-only file on, a Unix socket.
func (b *bench) openRedis() *redisServers {
	r := &redisServers{bench: b}
	b.Cleanup(r.close) // if the part fails
	dir, err := process.TempDir(b.Context(), "bench-")
	b.Must(err)
	server, err := managed.Open(managed.Options{DataDir: dir, Logger: slog.New(slog.DiscardHandler)})
	b.Must(err)
	running, cancel := context.WithCancel(context.WithoutCancel(b.Context()))
	ended := make(chan error, 1)
	go func() { ended <- server.Run(running) }()
	r.onClose(func() error {
		cancel()
		return errors.Join(<-ended, os.RemoveAll(dir))
	})
	b.Must(server.Ready(b.Context()))
	r.socket, r.args = server.Socket(), []string{"--redis", "unix://" + server.Socket()}
	options, err := rueidis.ParseURL(server.Address())
	b.Must(err)
	options.DisableCache, options.ForceSingleClient = true, true
	client, err := rueidis.NewClient(options)
	b.Must(err)
	r.nodes = append(r.nodes, client)
	r.onClose(func() error { client.Close(); return nil })
	return r
}

// openCluster runs three nodes without replicas, append-only file on.
func (b *bench) openCluster() *redisServers {
	cluster, err := redistest.OpenCluster(b.Context(),
		redistest.Options{Replicas: -1, Args: []string{"--appendonly", "yes"}})
	b.Must(err)
	r := &redisServers{bench: b, args: []string{"--redis", strings.Join(cluster.Addrs(), ",")}}
	b.Cleanup(r.close) // if the part fails
	r.onClose(cluster.Close)
	for _, node := range cluster.Nodes() {
		r.nodes = append(r.nodes, node.Client())
	}
	return r
}

// do sends a command to each node, and returns the first one's reply.
func (r *redisServers) do(words ...string) (reply rueidis.RedisResult) {
	for i, node := range r.nodes {
		answered := node.Do(r.bench.Context(), node.B().Arbitrary(words...).Build())
		r.bench.Must(answered.Error())
		if i == 0 {
			reply = answered
		}
	}
	return reply
}

// cpu returns the CPU time that Redis has used, all nodes together.
func (r *redisServers) cpu() time.Duration {
	all := r.numbers("cpu")
	return time.Duration((all["used_cpu_user"] + all["used_cpu_sys"]) * float64(time.Second))
}

// calls returns how often these commands were called, in all nodes together.
func (r *redisServers) calls(commands ...string) (sum float64) {
	all := r.numbers("commandstats")
	for _, command := range commands {
		sum += all["cmdstat_"+command] // a command that was never called has no line
	}
	return sum
}

// numbers returns the numbers of a section of INFO, all nodes together.
func (r *redisServers) numbers(section string) map[string]float64 {
	all := make(map[string]float64)
	for _, node := range r.nodes {
		numbers, err := redistest.Numbers(r.bench.Context(), node, section)
		r.bench.Must(err)
		for field, n := range numbers {
			all[field] += n
		}
	}
	return all
}

// empty resets Redis, so that measurements start from the same state: a write costs more while Redis's table of keys
// grows, and while the append-only file is rewritten, which is switched off.
func (r *redisServers) empty() {
	r.do("CONFIG", "SET", "auto-aof-rewrite-percentage", "0")
	r.do("FLUSHALL", "SYNC")
}

// connections counts the clients of Redis, this program not included.
func (r *redisServers) connections() int {
	return int(r.numbers("clients")["connected_clients"]) - len(r.nodes)
}

// memory returns the bytes that Redis uses.
func (r *redisServers) memory() float64 { return r.numbers("memory")["used_memory"] }
