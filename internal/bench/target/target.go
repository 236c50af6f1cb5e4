// Package target starts what is measured, and reads the figures of its processes.
package target

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/internal/bench/drive"
	"github.com/tidemark-dev/tidemark/storage/managed"
)

// Settings are what all parts of the benchmarks are told.
type Settings struct {
	Binary   string // of the service
	Rounds   int    // how often each figure is measured
	Requests int    // in a round
}

// Target is what is measured: a server and a floor, each a process of its own, and the Redis below the server.
type Target struct {
	Server string // address
	Floor  string // address
	Socket string // of Redis
	Redis  rueidis.Client
	undo   []func()
}

// Stop stops it.
func (u *Target) Stop() {
	for i := len(u.undo) - 1; i >= 0; i-- {
		u.undo[i]()
	}
}

// Start starts the target. Its server gets further arguments of serve.
func Start(ctx context.Context, binary string, args ...string) (*Target, error) {
	u := &Target{}
	if err := u.start(ctx, binary, args); err != nil {
		u.Stop()
		return nil, err
	}
	return u, nil
}

func (u *Target) start(ctx context.Context, binary string, args []string) error {
	dir, err := os.MkdirTemp("", "tidemark-bench-")
	if err != nil {
		return err
	}
	u.undo = append(u.undo, func() { _ = os.RemoveAll(dir) }) // a temporary folder
	if err := u.startRedis(ctx, dir); err != nil {
		return err
	}
	args = append([]string{"serve", "--redis", "unix://" + u.Socket, "--log-level", "error"}, append(args, "--listen")...)
	if u.Server, err = u.startProcess(ctx, binary, args...); err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if u.Floor, err = u.startProcess(ctx, self, "-floor"); err != nil {
		return fmt.Errorf("start the floor: %w", err)
	}
	return nil
}

// startRedis runs Redis as a bare `tidemark serve` does: append-only file on, a Unix socket.
func (u *Target) startRedis(ctx context.Context, dir string) error {
	server, err := managed.Open(managed.Options{DataDir: dir, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- server.Run(running) }()
	u.undo = append(u.undo, func() {
		cancel()
		if err := <-ended; err != nil {
			fmt.Fprintln(os.Stderr, "bench: redis:", err)
		}
	})
	if err := server.Ready(ctx); err != nil {
		return err
	}
	u.Socket = server.Socket()
	options, err := rueidis.ParseURL(server.Address())
	if err != nil {
		return err
	}
	options.DisableCache, options.ForceSingleClient = true, true
	u.Redis, err = rueidis.NewClient(options)
	if err == nil {
		u.undo = append(u.undo, u.Redis.Close)
	}
	return err
}

// startProcess runs a command with a free address as its last argument and waits until it answers there.
func (u *Target) startProcess(ctx context.Context, name string, args ...string) (string, error) {
	address, err := freeAddress(ctx)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, name, append(args, address)...) //nolint:gosec // our own binaries
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	if err := cmd.Start(); err != nil {
		return "", err
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	u.undo = append(u.undo, func() { _ = cmd.Process.Signal(syscall.SIGTERM); <-ended })
	for {
		if _, err := drive.Once(ctx, address, drive.Request("GET", "/metrics", "")); err == nil {
			return address, nil
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-ended:
			return "", errors.New("it ended before it answered")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func freeAddress(ctx context.Context) (string, error) {
	var c net.ListenConfig
	l, err := c.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close() //nolint:errcheck // only its port was wanted
	return l.Addr().String(), nil
}

// Metric reads one number without labels from a process's /metrics.
func Metric(ctx context.Context, address, name string) (float64, error) {
	a, err := drive.Once(ctx, address, drive.Request("GET", "/metrics", ""))
	if err != nil {
		return 0, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(a.Body))
	if err != nil {
		return 0, err
	}
	family := families[name]
	if family == nil || len(family.GetMetric()) != 1 {
		return 0, fmt.Errorf("%s has no metric %s", address, name)
	}
	m := family.GetMetric()[0]
	return m.GetGauge().GetValue() + m.GetCounter().GetValue(), nil
}

// RedisCPU returns the CPU seconds that Redis has used.
func (u *Target) RedisCPU(ctx context.Context) (float64, error) {
	user, err := u.RedisInfo(ctx, "cpu", "used_cpu_user")
	if err != nil {
		return 0, err
	}
	system, err := u.RedisInfo(ctx, "cpu", "used_cpu_sys")
	return user + system, err
}

// RedisInfo reads one number from a section of INFO. A command's line gives its number of calls.
func (u *Target) RedisInfo(ctx context.Context, section, field string) (float64, error) {
	text, err := u.Redis.Do(ctx, u.Redis.B().Info().Section(section).Build()).ToString()
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), field+":"); ok {
			value, _, _ = strings.Cut(strings.TrimPrefix(value, "calls="), ",")
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, nil // a command that was never called has no line
}

// EmptyRedis makes the next measurement start as the one before did: a write costs more while Redis's table of keys grows,
// and while the append-only file is rewritten, which is switched off.
func (u *Target) EmptyRedis(ctx context.Context) error {
	set := u.Redis.B().ConfigSet().ParameterValue().ParameterValue("auto-aof-rewrite-percentage", "0").Build()
	if err := u.Redis.Do(ctx, set).Error(); err != nil {
		return err
	}
	return u.Redis.Do(ctx, u.Redis.B().Flushall().Sync().Build()).Error()
}

// AwaitWaiting returns when as many fetches wait, and none of them is still asking Redis.
func (u *Target) AwaitWaiting(ctx context.Context, waiters int) error {
	var asked float64
	for {
		n, err := Metric(ctx, u.Server, "tidemark_waiting_fetches")
		if err != nil {
			return err
		}
		scripts, err := u.RedisInfo(ctx, "commandstats", "cmdstat_evalsha")
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

// Connections counts the clients of Redis, this program not included.
func (u *Target) Connections(ctx context.Context) (int, error) {
	n, err := u.RedisInfo(ctx, "clients", "connected_clients")
	return int(n) - 1, err
}

// AwaitTopics returns when the server is subscribed to as many topics.
func (u *Target) AwaitTopics(ctx context.Context, n int) error {
	for {
		topics, err := u.Redis.Do(ctx, u.Redis.B().PubsubShardchannels().Build()).AsStrSlice()
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

// Calls returns how often commands of these names were called.
func (u *Target) Calls(ctx context.Context, commands []string) (float64, error) {
	var sum float64
	for _, command := range commands {
		n, err := u.RedisInfo(ctx, "commandstats", "cmdstat_"+command)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// Memory returns the resident memory of the server and the memory that Redis uses, in bytes.
func (u *Target) Memory(ctx context.Context) (server, store float64, err error) {
	if server, err = Metric(ctx, u.Server, "process_resident_memory_bytes"); err == nil {
		store, err = u.RedisInfo(ctx, "memory", "used_memory")
	}
	return server, store, err
}
