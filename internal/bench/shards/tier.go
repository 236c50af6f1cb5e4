package shards

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tidemark-dev/tidemark/internal/bench/target"
	"github.com/tidemark-dev/tidemark/internal/load"
	"github.com/tidemark-dev/tidemark/records"
	"github.com/tidemark-dev/tidemark/shard"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/shards"
)

// value is what an entry has.
var value = `{"id":1,"name":"Ann","bio":"` + strings.Repeat("x", 172) + `"}`

// fill stores as many entries.
func fill(ctx context.Context, u *target.Target, entries int) error {
	const script = `for i = tonumber(ARGV[1]), tonumber(ARGV[2]) do
		redis.call('SET', ARGV[3] .. string.format('%d', i) .. ARGV[4], ARGV[5])
	end
	return 1`
	before, after, _ := strings.Cut(records.Author.Key("0"), "0")
	for from := 0; from < entries; from += 10_000 {
		to := min(from+10_000, entries) - 1
		if err := u.Redis.Do(ctx, "EVAL", script, "0", strconv.Itoa(from), strconv.Itoa(to), before, after, value).Error(); err != nil {
			return err
		}
	}
	return nil
}

// nodes are the nodes of some data centres, each a process.
type nodes []*node

type node struct {
	*target.Process
	dc string
}

// start gives a data centre a layout, and starts a node for each of its shards.
func start(ctx context.Context, u *target.Target, dc string, count int) (started nodes, err error) {
	conn, err := redis.Connect(ctx, redis.Options{URL: "unix://" + u.Redis.Socket, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if _, err := shards.New(conn).SetLayout(ctx, records.Author.Name, dc, 0, shard.Even(count)); err != nil {
		return nil, err
	}
	for i := range count {
		p, err := u.AddNode(ctx, "--cache", records.Author.Name, "--dc", dc, "--host", fmt.Sprintf("%s-%d", dc, i), "--load-rate", loadRate)
		if err != nil {
			return nil, err
		}
		started = append(started, &node{Process: p, dc: dc})
	}
	return started, nil
}

// loadRate is so high that it doesn't slow a node.
const loadRate = "1000000"

// of returns the nodes of a data centre.
func (all nodes) of(dc string) (some nodes) {
	for _, n := range all {
		if n.dc == dc {
			some = append(some, n)
		}
	}
	return some
}

// awaitReady returns when all nodes have loaded their shards.
func (all nodes) awaitReady(ctx context.Context) error {
	for _, n := range all {
		for {
			if _, err := load.Once(ctx, n.HTTP, load.Request(http.MethodGet, "/readyz", "")); err == nil {
				break
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	return nil
}

// end ends the nodes.
func (all nodes) end() {
	for _, n := range all {
		n.End(syscall.SIGTERM)
	}
}

// cpu returns the CPU time that the nodes have used together.
func (all nodes) cpu() (sum time.Duration, err error) {
	for _, n := range all {
		used, err := n.CPU()
		if err != nil {
			return 0, err
		}
		sum += used
	}
	return sum, nil
}

// requests returns how many requests the nodes have answered.
func (all nodes) requests(ctx context.Context) (sum float64, err error) {
	for _, n := range all {
		answered, err := n.Labelled(ctx, "tidemark_shard_node_requests_total", "cache")
		if err != nil {
			return 0, err
		}
		sum += answered[records.Author.Name]
	}
	return sum, nil
}

// clients is a process of clients: see RunClients.
type clients struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// startClient starts a client of nodes.
func startClient(ctx context.Context, all nodes) (*clients, error) {
	return startClients(ctx, all, setup{Entries: entries, Clients: 1})
}

// startClients starts clients of nodes.
func startClients(ctx context.Context, all nodes, s setup) (*clients, error) {
	for _, one := range all {
		s.Hosts = append(s.Hosts, shard.Host{Address: one.Frontend, DC: one.dc})
	}
	description, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &clients{cmd: exec.CommandContext(ctx, self, "-shards", string(description))} //nolint:gosec // this program
	c.cmd.Stderr = os.Stderr
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = bufio.NewReader(out)
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	return c, c.cmd.Start()
}

// end ends the process.
func (c *clients) end() error { return errors.Join(c.in.Close(), c.cmd.Wait()) }

// carryOut makes the clients do as an order says.
func (c *clients) carryOut(o order) (result outcome, err error) {
	if err := json.NewEncoder(c.in).Encode(o); err != nil {
		return result, err
	}
	line, err := c.out.ReadBytes('\n')
	if err != nil {
		return result, fmt.Errorf("the clients ended: %w", err)
	}
	if err := json.Unmarshal(line, &result); err != nil {
		return result, err
	}
	if result.Error != "" {
		return result, errors.New(result.Error)
	}
	return result, nil
}
