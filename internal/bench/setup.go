package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/storage/managed"
)

// setup is what is measured: a server and a floor, each a process of its own, and the Redis below the server.
type setup struct {
	server string // address
	floor  string // address
	socket string // of Redis
	redis  rueidis.Client
	undo   []func()
}

func (u *setup) stop() {
	for i := len(u.undo) - 1; i >= 0; i-- {
		u.undo[i]()
	}
}

// start starts the setup. Its server gets further arguments of serve.
func start(ctx context.Context, s settings, args ...string) (*setup, error) {
	u := &setup{}
	if err := u.start(ctx, s, args); err != nil {
		u.stop()
		return nil, err
	}
	return u, nil
}

func (u *setup) start(ctx context.Context, s settings, args []string) error {
	dir, err := os.MkdirTemp("", "tidemark-bench-")
	if err != nil {
		return err
	}
	u.undo = append(u.undo, func() { _ = os.RemoveAll(dir) }) // a temporary folder
	if err := u.startRedis(ctx, dir); err != nil {
		return err
	}
	args = append([]string{"serve", "--redis", "unix://" + u.socket, "--log-level", "error"}, append(args, "--listen")...)
	if u.server, err = u.startProcess(ctx, s.tidemark, args...); err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if u.floor, err = u.startProcess(ctx, self, "-floor"); err != nil {
		return fmt.Errorf("start the floor: %w", err)
	}
	return nil
}

// startRedis runs Redis as a bare `tidemark serve` does: append-only file on, a Unix socket.
func (u *setup) startRedis(ctx context.Context, dir string) error {
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
	u.socket = server.Socket()
	options, err := rueidis.ParseURL(server.Address())
	if err != nil {
		return err
	}
	options.DisableCache, options.ForceSingleClient = true, true
	u.redis, err = rueidis.NewClient(options)
	if err == nil {
		u.undo = append(u.undo, u.redis.Close)
	}
	return err
}

// startProcess runs a command with a free address as its last argument and waits until it answers there.
func (u *setup) startProcess(ctx context.Context, name string, args ...string) (string, error) {
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
		if _, err := once(ctx, address, httpRequest("GET", "/metrics", "")); err == nil {
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

// metric reads one number without labels from a process's /metrics.
func metric(ctx context.Context, address, name string) (float64, error) {
	a, err := once(ctx, address, httpRequest("GET", "/metrics", ""))
	if err != nil {
		return 0, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(a.body))
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
