// Package target starts what is measured, and reads the figures of its processes.
package target

import (
	"context"
	"fmt"
	"os"
	"syscall"
)

// Settings are what all parts of the benchmarks are told.
type Settings struct {
	Binary   string // of the service
	Rounds   int    // how often each figure is measured
	Requests int    // in a round
}

// Target is what is measured: a server and a floor, each a process of its own, and the Redis below the server.
type Target struct {
	Server *Process
	Floor  *Process
	Redis  *Redis
	binary string
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
	return start(ctx, binary, openRedis, args)
}

// StartOnCluster is Start on a Redis Cluster of three nodes.
func StartOnCluster(ctx context.Context, binary string, args ...string) (*Target, error) {
	return start(ctx, binary, openCluster, args)
}

func start(ctx context.Context, binary string, open func(context.Context) (*Redis, error), args []string) (*Target, error) {
	u := &Target{binary: binary}
	if err := u.start(ctx, open, args); err != nil {
		u.Stop()
		return nil, err
	}
	return u, nil
}

func (u *Target) start(ctx context.Context, open func(context.Context) (*Redis, error), args []string) (err error) {
	if u.Redis, err = open(ctx); err != nil {
		return fmt.Errorf("start Redis: %w", err)
	}
	u.undo = append(u.undo, u.Redis.close)
	if u.Server, err = u.AddServer(ctx, args...); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if u.Floor, err = startProcess(ctx, self, []string{"-floor", "-floor-frontend"}); err != nil {
		return fmt.Errorf("start the floor: %w", err)
	}
	u.undo = append(u.undo, func() { u.Floor.End(syscall.SIGTERM) })
	return nil
}

// AddServer starts one more server on the same Redis.
func (u *Target) AddServer(ctx context.Context, args ...string) (*Process, error) {
	args = append(append([]string{"serve", "--log-level", "error"}, u.Redis.args...), args...)
	p, err := startProcess(ctx, u.binary, []string{"--listen", "--grpc-listen", "--admin-listen"}, args...)
	if err != nil {
		return nil, fmt.Errorf("start a server: %w", err)
	}
	u.undo = append(u.undo, func() { p.End(syscall.SIGTERM) })
	return p, nil
}

// AddNode starts a node of a sharded cache on the same Redis.
func (u *Target) AddNode(ctx context.Context, args ...string) (*Process, error) {
	args = append(append([]string{"shards", "serve", "--log-level", "error"}, u.Redis.args...), args...)
	p, err := startProcess(ctx, u.binary, []string{"--admin-listen", "--listen"}, args...)
	if err != nil {
		return nil, fmt.Errorf("start a node: %w", err)
	}
	u.undo = append(u.undo, func() { p.End(syscall.SIGTERM) })
	return p, nil
}

// Live returns the bytes that the server's last garbage collection has left in memory, about.
func (u *Target) Live(ctx context.Context) (float64, error) { return u.Server.Live(ctx) }

// Memory returns the resident memory of the server and the memory that Redis uses, in bytes.
func (u *Target) Memory(ctx context.Context) (server, store float64, err error) {
	if server, err = u.Server.Metric(ctx, "process_resident_memory_bytes"); err == nil {
		store, err = u.Redis.Info(ctx, "memory", "used_memory")
	}
	return server, store, err
}
