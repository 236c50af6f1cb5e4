package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/internal/pace"
	"github.com/tidemark-dev/tidemark/internal/records/site"
	"github.com/tidemark-dev/tidemark/internal/records/tier"
	"github.com/tidemark-dev/tidemark/shard"
	"github.com/tidemark-dev/tidemark/shard/rpc"
	"github.com/tidemark-dev/tidemark/test/launch"
)

// keysOfGet is the default number of keys of a Get.
const keysOfGet = 100

// setup is the configuration that a process of clients receives when it starts.
type setup struct {
	Hosts   []shard.Host
	Redis   string        // URL; "": it doesn't read from Redis
	Entries int           // of which it reads
	Clients int           // number of clients: all ping, and the last one reads
	Period  time.Duration // between two pings of a node; 0: the default
	LocalDC string        // data centre whose nodes are asked first; "": all are asked at once
}

// order is a command to read.
type order struct {
	Redis   bool // by MGET, and not through the nodes
	Keys    int  // of each Get; 0: keysOfGet
	Callers int  // each reads again at once, or every Pace; 0: the clients only ping
	Pace    time.Duration
	For     time.Duration
}

// outcome is the answer to an order.
type outcome struct {
	Keys  int             // of each Get
	Took  []time.Duration // by each read
	CPU   time.Duration   // of the process
	For   time.Duration
	Error string // of a read, after which its caller ended; "": none
}

// clients is a process of clients: see runClients. Its methods that fail end the part.
type clients struct {
	process *launch.Child
	bench   *bench
}

// startClient starts a client of nodes.
func (u *system) startClient(all nodes) *clients {
	return u.startClients(all, setup{Entries: entries, Clients: 1})
}

// startClients starts clients of nodes.
func (u *system) startClients(all nodes, s setup) *clients {
	for _, node := range all {
		s.Hosts = append(s.Hosts, shard.Host{Address: node.GRPC, DC: node.dc})
	}
	description, err := json.Marshal(s)
	u.Must(err)
	c, err := launch.StartChild(u.Context(), "-shards", string(description))
	u.Must(err)
	return &clients{process: c, bench: u.bench}
}

// end ends the process.
func (c *clients) end() {
	if err := c.process.End(); err != nil {
		c.bench.Errorf("clients of shards: %v", err)
	}
}

// read makes the clients execute an order.
func (c *clients) read(o order) (result outcome) {
	c.bench.Must(c.process.Ask(o, &result))
	if result.Error != "" {
		c.bench.Fatalf("read from shards: %s", result.Error)
	}
	return result
}

// runClients is a process of clients. It reads orders on standard input, one a line, and prints the outcome of each.
// description is a setup.
func runClients(ctx context.Context, description string) error {
	var s setup
	if err := json.Unmarshal([]byte(description), &s); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var running errgroup.Group
	defer func() { cancel(); _ = running.Wait() }()
	reader, err := s.start(ctx, &running)
	if err != nil {
		return err
	}
	return launch.Answer(os.Stdin, os.Stdout, func(o order) outcome { return reader.carryOut(ctx, o) })
}

// reader reads through nodes, and from Redis.
type reader struct {
	ids    []string
	shards *shard.Client[string, string, []byte]
	redis  rueidis.Client
}

// start starts the clients.
func (s setup) start(ctx context.Context, running *errgroup.Group) (*reader, error) {
	r := &reader{ids: make([]string, s.Entries)}
	for i := range r.ids {
		r.ids[i] = strconv.Itoa(i)
	}
	for range s.Clients {
		description, err := tier.Describe(site.Kind("author"))
		if err != nil {
			return nil, err
		}
		transport := rpc.NewClient(rpc.ClientOptions{})
		client, err := shard.NewClient(description, shard.ClientOptions{Hosts: shard.StaticHosts(s.Hosts),
			Transport: transport, PingPeriod: s.Period, LocalDC: s.LocalDC})
		if err != nil {
			return nil, err
		}
		running.Go(func() error { defer transport.Close(); return client.Run(ctx) })
		r.shards = client
	}
	if s.Redis == "" {
		return r, nil
	}
	options, err := rueidis.ParseURL(s.Redis)
	if err != nil {
		return nil, err
	}
	options.DisableCache, options.ForceSingleClient = true, true
	if r.redis, err = rueidis.NewClient(options); err != nil {
		return nil, err
	}
	running.Go(func() error { <-ctx.Done(); r.redis.Close(); return nil })
	return r, nil
}

// carryOut executes an order to read.
func (r *reader) carryOut(ctx context.Context, o order) (result outcome) {
	runtime.GC() // earlier responses aren't counted
	o.Keys = cmp.Or(o.Keys, keysOfGet)
	result.Keys = o.Keys
	loads := make([]caller, o.Callers)
	var callers sync.WaitGroup
	started, used := time.Now(), ownCPU()
	for i := range loads {
		callers.Go(func() { loads[i].run(ctx, r, o) })
	}
	if callers.Wait(); o.Callers == 0 {
		pace.Sleep(ctx, o.For)
	}
	result.For, result.CPU = time.Since(started), ownCPU()-used
	for _, l := range loads {
		result.Took = append(result.Took, l.took...)
		if l.err != nil {
			result.Error = l.err.Error()
		}
	}
	return result
}

// caller is the loop of one caller.
type caller struct {
	took []time.Duration
	err  error // ended the loop
}

func (l *caller) run(ctx context.Context, r *reader, o order) {
	random := rand.New(rand.NewPCG(rand.Uint64(), 0)) //nolint:gosec // keys of a load
	ids, read := make([]string, o.Keys), r.fromShards
	if o.Redis {
		read = r.fromRedis
	}
	started := time.Now()
	for due, end := started, started.Add(o.For); started.Before(end); started = time.Now() {
		for i := range ids {
			ids[i] = r.ids[random.IntN(len(r.ids))]
		}
		if l.err = read(ctx, ids); l.err != nil {
			return
		}
		l.took = append(l.took, time.Since(started))
		if o.Pace > 0 {
			due = due.Add(o.Pace)
			pace.Sleep(ctx, time.Until(due))
		}
	}
}

// patience ends a read that hangs.
const patience = 10 * time.Second

func (r *reader) fromShards(ctx context.Context, ids []string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	got, err := r.shards.Get(ctx, ids)
	if err == nil && len(got[ids[0]]) == 0 {
		err = errMissing
	}
	return err
}

func (r *reader) fromRedis(ctx context.Context, ids []string) error {
	keys := make([]string, len(ids))
	for i, id := range ids {
		keys[i] = site.Kind("author").Key(id)
	}
	values, err := r.redis.Do(ctx, r.redis.B().Mget().Key(keys...).Build()).AsStrSlice()
	if err != nil {
		return err
	}
	got := make(map[string]string, len(ids))
	for i, value := range values {
		got[ids[i]] = value
	}
	if got[ids[0]] == "" {
		return errMissing
	}
	return nil
}

var errMissing = errors.New("a value is missing")
