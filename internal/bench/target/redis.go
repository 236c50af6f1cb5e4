package target

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/internal/redistest"
	"github.com/tidemark-dev/tidemark/storage/managed"
)

// Redis is one Redis, or a Cluster.
type Redis struct {
	Socket string   // unless it is a Cluster
	args   []string // of serve
	nodes  []rueidis.Client
	undo   []func()
}

func (r *Redis) close() {
	for i := len(r.undo) - 1; i >= 0; i-- {
		r.undo[i]()
	}
}

// openRedis runs Redis as a bare `tidemark serve` does: append-only file on, a Unix socket.
func openRedis(ctx context.Context) (*Redis, error) {
	r := &Redis{}
	if err := r.open(ctx); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

func (r *Redis) open(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "tidemark-bench-")
	if err != nil {
		return err
	}
	r.undo = append(r.undo, func() { _ = os.RemoveAll(dir) }) // a temporary folder
	server, err := managed.Open(managed.Options{DataDir: dir, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- server.Run(running) }()
	r.undo = append(r.undo, func() {
		cancel()
		if err := <-ended; err != nil {
			fmt.Fprintln(os.Stderr, "bench: redis:", err)
		}
	})
	if err := server.Ready(ctx); err != nil {
		return err
	}
	r.Socket, r.args = server.Socket(), []string{"--redis", "unix://" + server.Socket()}
	options, err := rueidis.ParseURL(server.Address())
	if err != nil {
		return err
	}
	options.DisableCache, options.ForceSingleClient = true, true
	client, err := rueidis.NewClient(options)
	if err == nil {
		r.nodes = append(r.nodes, client)
		r.undo = append(r.undo, client.Close)
	}
	return err
}

// openCluster runs three nodes without replicas, append-only file on.
func openCluster(ctx context.Context) (*Redis, error) {
	cluster, err := redistest.OpenCluster(ctx, redistest.Options{Replicas: -1, Args: []string{"--appendonly", "yes"}})
	if err != nil {
		return nil, err
	}
	r := &Redis{args: []string{"--redis", strings.Join(cluster.Addrs(), ",")}}
	r.undo = append(r.undo, func() {
		if err := cluster.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "bench: cluster:", err)
		}
	})
	for _, node := range cluster.Nodes() {
		r.nodes = append(r.nodes, node.Client())
	}
	return r, nil
}

// Do sends a command to each node, and returns the first one's reply.
func (r *Redis) Do(ctx context.Context, words ...string) (reply rueidis.RedisResult) {
	for i, node := range r.nodes {
		answered := node.Do(ctx, node.B().Arbitrary(words...).Build())
		if i == 0 || answered.Error() != nil {
			reply = answered
		}
	}
	return reply
}

// CPU returns the CPU seconds that Redis has used, all nodes together.
func (r *Redis) CPU(ctx context.Context) (float64, error) {
	all, err := r.info(ctx, "cpu")
	return all["used_cpu_user"] + all["used_cpu_sys"], err
}

// Info reads one number from a section of INFO, as a sum over all nodes.
func (r *Redis) Info(ctx context.Context, section, field string) (float64, error) {
	all, err := r.info(ctx, section)
	return all[field], err
}

// Calls returns how often each of these commands was called, in all nodes together.
func (r *Redis) Calls(ctx context.Context, commands []string) (map[string]float64, error) {
	all, err := r.info(ctx, "commandstats")
	calls := make(map[string]float64)
	for _, command := range commands {
		calls[command] = all["cmdstat_"+command] // a command that was never called has no line
	}
	return calls, err
}

// info reads the numbers of a section of INFO. Of a line with several it reads the first, a command's number of calls.
func (r *Redis) info(ctx context.Context, section string) (map[string]float64, error) {
	all := make(map[string]float64)
	for _, node := range r.nodes {
		text, err := node.Do(ctx, node.B().Info().Section(section).Build()).ToString()
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(text) {
			field, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			value, _, _ = strings.Cut(strings.TrimPrefix(value, "calls="), ",")
			if n, err := strconv.ParseFloat(value, 64); err == nil {
				all[field] += n
			}
		}
	}
	return all, nil
}

// Empty makes the next measurement start as the one before did: a write costs more while Redis's table of keys grows,
// and while the append-only file is rewritten, which is switched off.
func (r *Redis) Empty(ctx context.Context) error {
	return errors.Join(r.Do(ctx, "CONFIG", "SET", "auto-aof-rewrite-percentage", "0").Error(), r.Do(ctx, "FLUSHALL", "SYNC").Error())
}

// Connections counts the clients of Redis, this program not included.
func (r *Redis) Connections(ctx context.Context) (int, error) {
	n, err := r.Info(ctx, "clients", "connected_clients")
	return int(n) - len(r.nodes), err
}

// AwaitTopics returns when a Redis that is no Cluster has as many topics with a subscriber.
func (r *Redis) AwaitTopics(ctx context.Context, n int) error {
	for {
		topics, err := r.Do(ctx, "PUBSUB", "SHARDCHANNELS").AsStrSlice()
		if err != nil || len(topics) >= n {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// AwaitWaiting returns when as many fetches wait, and none of them is still asking Redis.
func (u *Target) AwaitWaiting(ctx context.Context, waiters int) error {
	var asked float64
	for {
		n, err := u.Server.Metric(ctx, "tidemark_waiting_fetches")
		if err != nil {
			return err
		}
		scripts, err := u.Redis.Info(ctx, "commandstats", "cmdstat_evalsha")
		if err != nil || (int(n) == waiters && scripts == asked) {
			return err
		}
		asked = scripts
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}
