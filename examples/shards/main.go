// Command shards serves the capitals of countries from memory, split into shards in three data centres, and reads them.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/tidemark-dev/tidemark/shard"
	"github.com/tidemark-dev/tidemark/shard/rpc"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/shards"
)

const usage = `usage:
  shards layout SHARDS     splits the cache in each of the data centres a, b and c
  shards node DC HOST      runs a node with the data of capitals.csv
  shards get COUNTRY...    reads capitals
  shards watch COUNTRY...  reads them ten times a second, and prints what changes

Redis is at REDIS_URL, or redis://127.0.0.1:6379`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "shards:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) < 2 {
		return errors.New(usage)
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	url := os.Getenv("REDIS_URL")
	if url == "" {
		url = "redis://127.0.0.1:6379"
	}
	conn, err := redis.Connect(ctx, redis.Options{URL: url, KeyPrefix: os.Getenv("KEY_PREFIX"), Logger: log})
	if err != nil {
		return err
	}
	defer conn.Close()
	store := shards.New(conn)
	switch command, args := args[0], args[1:]; {
	case command == "layout" && len(args) == 1:
		return layout(ctx, store, args[0])
	case command == "node" && len(args) == 2:
		return node(ctx, store, shard.Member{DC: args[0], Host: args[1]}, log)
	case command == "get":
		return read(ctx, store, log, func(c *client) error { return get(ctx, c, args) })
	case command == "watch":
		return read(ctx, store, log, func(c *client) error { return watch(ctx, c, args) })
	}
	return errors.New(usage)
}

// layout gives each data centre its first layout. tidemark shards reshard changes it later, one data centre after the
// other.
func layout(ctx context.Context, store *shards.Store, count string) error {
	n, err := strconv.Atoi(count)
	if err != nil || n < 1 || n > shard.MaxShards {
		return fmt.Errorf("%q isn't a number of shards", count)
	}
	for _, dc := range []string{"a", "b", "c"} {
		_, err := store.SetLayout(ctx, capitals.Cache, dc, 0, shard.Even(n))
		if err != nil && !errors.Is(err, shard.ErrChanged) {
			return err
		}
	}
	return nil
}

// node runs a node until it is stopped, or loses its shard. A supervisor starts it again then.
func node(ctx context.Context, store *shards.Store, m shard.Member, log *slog.Logger) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	m.Address = listener.Addr().String()
	n, err := shard.NewNode(capitals, file("capitals.csv"), shard.NodeOptions{Member: m, Claims: store, Logger: log})
	if err != nil {
		return err
	}
	server := rpc.NewServer(rpc.ServerOptions{Handler: n, Ready: n.Ready, Logger: log})
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	err = n.Run(ctx)
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return errors.Join(err, server.Drain(drain), <-served)
}

type client = shard.Client[string, string, string]

// read calls f with a client that runs.
func read(ctx context.Context, store *shards.Store, log *slog.Logger, f func(*client) error) error {
	transport := rpc.NewClient(rpc.ClientOptions{})
	defer transport.Close()
	c, err := shard.NewClient(capitals, shard.ClientOptions{Hosts: store.Hosts(capitals.Cache), Transport: transport,
		Logger: log})
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- c.Run(running) }()
	err = f(c)
	stop()
	return errors.Join(err, <-ended)
}

func get(ctx context.Context, c *client, countries []string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	found, err := c.Get(ctx, countries)
	for _, country := range countries {
		if capital, ok := found[country]; ok {
			fmt.Printf("%s: %s\n", country, capital)
		}
	}
	return err
}

func watch(ctx context.Context, c *client, countries []string) error {
	reads, failed, slowest, last := 0, 0, time.Duration(0), ""
	for ctx.Err() == nil {
		start := time.Now()
		limited, cancel := context.WithTimeout(ctx, 5*time.Second)
		found, err := c.Get(limited, countries)
		cancel()
		reads, slowest = reads+1, max(slowest, time.Since(start))
		if err != nil && ctx.Err() == nil {
			failed++
			fmt.Println(err)
		} else if text := fmt.Sprint(found); text != last && ctx.Err() == nil {
			fmt.Println(text)
			last = text
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	fmt.Printf("%d reads, %d failed, the slowest took %v\n", reads, failed, slowest.Round(time.Millisecond))
	return nil
}
