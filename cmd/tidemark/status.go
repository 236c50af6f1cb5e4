package main

import (
	"cmp"
	"context"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/fault"
	v1 "github.com/tidemark-dev/tidemark/internal/api/v1"
	"github.com/tidemark-dev/tidemark/internal/pace"
	"github.com/tidemark-dev/tidemark/internal/program/config"
	"github.com/tidemark-dev/tidemark/internal/program/overview"
	"github.com/tidemark-dev/tidemark/internal/records/keyspace"
	"github.com/tidemark-dev/tidemark/internal/wire"
	"github.com/tidemark-dev/tidemark/server"
	"github.com/tidemark-dev/tidemark/shard"
	"github.com/tidemark-dev/tidemark/shard/layout"
	"github.com/tidemark-dev/tidemark/storage/redis/diagnose"
	"github.com/tidemark-dev/tidemark/storage/redis/shards"
)

// maxLeases is how many leases a server announces, at most.
const maxLeases = 32

// peers are the servers on this Redis, as they announce themselves.
type peers struct {
	mu     sync.Mutex
	own    client.PeerServer
	others []client.PeerServer
}

// newPeers returns this server alone.
func newPeers(server string) *peers {
	b := thisBuild()
	host, _ := os.Hostname() // unknown: empty
	now := time.Now().UTC().Truncate(time.Millisecond)
	return &peers{own: client.PeerServer{ID: server, Role: "serve", Version: b.version, Commit: b.commit, Host: host,
		PID: os.Getpid(), Listen: []string{}, StartedAt: now, SeenAt: now, Leases: []string{}}}
}

// self returns this server.
func (p *peers) self() client.PeerServer {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.own
}

// change changes this server.
func (p *peers) change(how func(own *client.PeerServer)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	how(&p.own)
}

// seen replaces the others. now is the time of the store.
func (p *peers) seen(others []client.PeerServer, now time.Time) {
	slices.SortFunc(others, func(a, b client.PeerServer) int {
		return cmp.Or(a.StartedAt.Compare(b.StartedAt), cmp.Compare(a.ID, b.ID))
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.others, p.own.SeenAt = others, now
}

// all returns this server, and then the others.
func (p *peers) all() wire.Servers {
	p.mu.Lock()
	defer p.mu.Unlock()
	self := p.own
	self.Self = true
	return wire.Servers{Servers: append([]client.PeerServer{self}, p.others...)}
}

// The names of leases that servers announce.
const (
	leaseDirector = "director:"
	leaseCopies   = "copies"
	leaseKeys     = "key-metrics"
)

// hold replaces the leases of this server by those of a sample of its metrics.
func (p *peers) hold(s overview.Sample) {
	leases := []string{}
	for queue, directs := range s.Values("tidemark_director", "queue") {
		if directs > 0 {
			leases = append(leases, leaseDirector+queue)
		}
	}
	if s.Values("tidemark_copies_channels", "")[""] > 0 {
		leases = append(leases, leaseCopies)
	}
	if len(s.Values("tidemark_keys_counted_timestamp_seconds", "redis")) > 0 {
		leases = append(leases, leaseKeys)
	}
	slices.Sort(leases)
	p.change(func(own *client.PeerServer) {
		own.MoreLeases = max(0, len(leases)-maxLeases)
		own.Leases = leases[:min(len(leases), maxLeases)]
	})
}

// directors returns the queues that servers direct, and whether all are known.
func (p *peers) directors() (queues map[string]bool, all bool) {
	queues, all = map[string]bool{}, true
	for _, server := range p.all().Servers {
		all = all && server.MoreLeases == 0
		for _, name := range server.Leases {
			if queue, ok := strings.CutPrefix(name, leaseDirector); ok {
				queues[queue] = true
			}
		}
	}
	return queues, all
}

// examineEvery is the mean interval at which a server examines its Redis.
const examineEvery = time.Minute

// examiner examines each Redis that the server uses, and the layouts of caches in shards.
type examiner struct {
	redis   []connected
	layouts shard.Layouts
	caches  []string
	to      *overview.Problems

	mu     sync.Mutex
	config config.Config
	found  []wire.RedisState
}

func newExaminer(c config.Config, s stores, to *overview.Problems) *examiner {
	e := &examiner{redis: s.each(), layouts: shards.New(s.conn), caches: c.Shards.Reads.Caches, to: to, config: c}
	e.found = make([]wire.RedisState, len(e.redis))
	for i, server := range e.redis {
		e.found[i] = wire.RedisState{Of: server.of, Primaries: []wire.PrimaryState{}}
	}
	return e
}

// configure makes the next examination check a changed configuration.
func (e *examiner) configure(c config.Config) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.config = c
}

// run examines periodically until ctx ends.
func (e *examiner) run(ctx context.Context) error {
	for {
		e.examine(ctx)
		if !pace.Sleep(ctx, pace.Jitter(examineEvery)) {
			return nil
		}
	}
}

// state returns what was found last.
func (e *examiner) state() wire.StorageStates {
	e.mu.Lock()
	defer e.mu.Unlock()
	return wire.StorageStates{Redis: slices.Clone(e.found)}
}

func (e *examiner) examine(ctx context.Context) {
	var examining sync.WaitGroup
	problems := make([][]overview.Problem, len(e.redis))
	for i, server := range e.redis {
		examining.Go(func() { problems[i] = e.examineRedis(ctx, i, server) })
	}
	examining.Wait()
	if ctx.Err() != nil {
		return
	}
	e.to.Report("redis", time.Now(), slices.Concat(problems...))
	if len(e.caches) > 0 {
		_, _ = e.Shards(ctx, "") // its failure is reported for its Redis
	}
}

// examineRedis examines a Redis, and returns its problems.
func (e *examiner) examineRedis(ctx context.Context, i int, server connected) []overview.Problem {
	k := &checks{about: server.of}
	found, err := diagnose.Examine(ctx, server.conn)
	e.mu.Lock()
	defer e.mu.Unlock()
	state := &e.found[i]
	state.CheckedAt, state.Error = time.Now().UTC().Truncate(time.Millisecond), ""
	if err != nil {
		state.Error = printable(err.Error())
		k.failed("connection", err)
		return problemsOf(k.found)
	}
	k.storage(e.config, another{of: server.of}, found.Storage)
	shown := v1.StorageOf(found.Storage, k.warnings())
	k.nodes(e.config, server.conn.User(), found)
	state.Storage, state.Uncovered = &shown, found.Uncovered
	state.Primaries = make([]wire.PrimaryState, len(found.Primaries))
	for i, p := range found.Primaries {
		limit := found.Storage.Durability.MaxMemoryBytes
		state.Primaries[i] = wire.PrimaryState{Address: p.Address, UsedMemoryBytes: p.UsedBytes, MaxMemoryBytes: limit,
			Replicas: p.Replicas, LatencyMicros: p.Latency.Microseconds(), ClockOffset: p.ClockOffset.Milliseconds()}
		if p.Err != nil {
			state.Primaries[i].Error = printable(p.Err.Error())
		}
	}
	return problemsOf(k.found)
}

// pages are the pages of the documentation about the checks of doctor.
var pages = map[string]string{
	"connection": "runbook.md#tidemarknotready", "node": "runbook.md#tidemarknotready",
	"persistence": "durability.md", "replicas": "durability.md",
	"confirmations": "durability.md#replicas",
	"eviction":      "deployment.md#your-own-redis", "rights": "which-redis.md",
	"commands": "which-redis.md",
	"slots":    "runbook.md#tidemarknotready", "memory": "runbook.md#tidemarkredisfull",
	"latency": "runbook.md#tidemarkredisunsteady", "clock": "deployment.md#your-own-redis",
}

// problemsOf returns the findings that aren't fine.
func problemsOf(found []finding) (all []overview.Problem) {
	for _, f := range found {
		if f.Outcome == fine {
			continue
		}
		all = append(all, overview.Problem{Code: "Redis" + strings.ToUpper(f.Check[:1]) + f.Check[1:], About: f.About,
			Text: "Redis of " + f.About + ": " + f.advice(), Page: pages[f.Check], Critical: f.Outcome == failure})
	}
	return all
}

// missing reports the caches of which shards have no node: a problem for each cache. dcs are the data centres of the
// caches.
func (e *examiner) missing(dcs [][]shard.DC) {
	var found []overview.Problem
	for i, cache := range e.caches {
		if text := layout.Summary(cache, dcs[i]); text != "" {
			found = append(found, shardsMissing(cache, text))
		}
	}
	e.to.Report("shards", time.Now(), found)
}

// shardsMissing returns the problem that shards of a cache are missing.
func shardsMissing(cache, text string) overview.Problem {
	return overview.Problem{Code: "TidemarkShardsMissing", About: cache, Text: text}
}

// Shards describes how the caches are split: the one that is named, or those that this service reads through nodes,
// whose missing shards it reports.
func (e *examiner) Shards(ctx context.Context, cache string) (wire.ShardedCaches, error) {
	caches := e.caches
	if cache != "" {
		if err := shard.CheckName("cache", cache); err != nil {
			return wire.ShardedCaches{}, &fault.Error{Kind: fault.Invalid, Slug: fault.SlugInvalidQuery, Field: "cache",
				Detail: err.Error()}
		}
		caches = []string{cache}
	}
	answer := wire.ShardedCaches{Caches: make([]wire.ShardedCache, len(caches))}
	all := make([][]shard.DC, len(caches))
	for i, name := range caches {
		var err error
		if all[i], err = e.layouts.Status(ctx, name); err != nil {
			return wire.ShardedCaches{}, err
		}
		answer.Caches[i] = shardedOf(name, all[i])
	}
	if cache == "" {
		e.missing(all)
	}
	return answer, nil
}

func shardedOf(cache string, dcs []shard.DC) wire.ShardedCache {
	lines := func(some []string) []string { return append([]string{}, some...) } // never null
	c := wire.ShardedCache{Cache: cache, DCs: make([]wire.ShardDC, len(dcs)), Missing: lines(layout.Missing(dcs)),
		Unsettled: lines(layout.Unsettled(dcs))}
	if text := layout.Summary(cache, dcs); text != "" {
		c.Severity = overview.SeverityOf(shardsMissing(cache, text), 0)
	}
	for i, dc := range dcs {
		c.DCs[i] = wire.ShardDC{DC: dc.Name, Generation: dc.Layout.Generation, Whole: dc.Whole(),
			Shards: make([]wire.ShardHolder, len(dc.Shards)), Former: make([]wire.ShardHolder, len(dc.Former))}
		for j, h := range dc.Shards {
			c.DCs[i].Shards[j] = holderOf(h)
			c.DCs[i].Shards[j].Shard, c.DCs[i].Shards[j].First = j, wire.ShardingKey(dc.Layout.Starts[j])
		}
		for j, h := range dc.Former {
			c.DCs[i].Former[j] = holderOf(h)
		}
	}
	return c
}

func holderOf(h shard.Holder) wire.ShardHolder {
	return wire.ShardHolder{Shard: h.Shard, Host: h.Host, Address: h.Address, Incarnation: h.Incarnation,
		ClaimedAt: h.Locked, PingedAt: h.Pinged, LeftMillis: h.Left.Milliseconds(), Held: h.Left > 0, Loaded: h.Loaded}
}

// SlowLogs reads the slow logs of each Redis.
func (e *examiner) SlowLogs(ctx context.Context, limit int) client.SlowLogs {
	all := make([]client.RedisSlowLogs, len(e.redis))
	var reading sync.WaitGroup
	for i, server := range e.redis {
		reading.Go(func() { all[i] = slowLogsOf(ctx, server, limit) })
	}
	reading.Wait()
	return client.SlowLogs{Redis: all}
}

func slowLogsOf(ctx context.Context, server connected, limit int) client.RedisSlowLogs {
	shown := client.RedisSlowLogs{Of: server.of, Logs: []client.SlowLog{}}
	found, err := diagnose.SlowLogs(ctx, server.conn, limit)
	if err != nil {
		shown.Error = printable(err.Error())
	}
	for _, log := range found {
		l := client.SlowLog{Address: log.Address, Calls: make([]client.SlowCall, len(log.Calls)), Remedy: log.Remedy}
		if log.Err != nil {
			cause, _ := diagnose.Explanation(log.Err)
			l.Error = printable(cause)
		}
		for i, call := range log.Calls {
			l.Calls[i] = client.SlowCall{At: call.At.UTC(), Micros: call.Took.Microseconds(), Command: printable(call.Command),
				Script: call.Script, Keys: make([]string, len(call.Keys)), Client: printable(call.Client)}
			for k, key := range call.Keys {
				l.Calls[i].Keys[k] = printable(key)
			}
		}
		shown.Logs = append(shown.Logs, l)
	}
	return shown
}

// drained returns the problem that an operator has drained this server, if that is so.
func drained(drains bool) []overview.Problem {
	if !drains {
		return nil
	}
	return []overview.Problem{{Code: "TidemarkDrained", Page: "deployment.md#draining-by-hand",
		Text: "this server was drained by an operator and isn't ready; tidemark resume makes it take clients again"}}
}

// startStatus starts the parts that know the state of this server and of Redis, and adds them to the options of the
// server.
func startStatus(ctx context.Context, c config.Config, s stores, compared *comparison, needs partNeeds,
	o *server.Options) *examiner {
	var problems overview.Problems
	history := overview.NewHistory(needs.metrics, compared.server)
	history.OnSample(compared.peers.hold)
	history.OnSample(overview.NewRules(history, &problems, compared.peers.directors).Check)
	examined := newExaminer(c, s, &problems)
	o.Status = &overview.Board{Points: history, Found: &problems, Peers: compared.peers.all, Redis: examined.state}
	o.Shards, o.SlowLogs = examined.Shards, examined.SlowLogs
	o.OnDrain = func(drains bool) {
		compared.peers.change(func(own *client.PeerServer) { own.Draining = drains })
		problems.Report("drain", time.Now(), drained(drains))
	}
	o.Survey = keyspace.NewJob(c.Records.Site.Table, keySources(s))
	for _, item := range examined.redis {
		needs.parts.Run(ctx, "failovers of the Redis of "+item.of, item.conn.WatchFailovers)
	}
	needs.parts.Run(ctx, "survey of keys", o.Survey.Run)
	needs.parts.Run(ctx, "history", history.Run)
	needs.parts.Run(ctx, "state of Redis", examined.run)
	return examined
}
