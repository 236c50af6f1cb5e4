package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tidemark-dev/tidemark/internal/chaos/load"
	"github.com/tidemark-dev/tidemark/internal/chaos/oracle"
	"github.com/tidemark-dev/tidemark/internal/chaos/report"
	"github.com/tidemark-dev/tidemark/internal/chaos/service"
	"github.com/tidemark-dev/tidemark/internal/proxy"
	"github.com/tidemark-dev/tidemark/internal/redistest"
)

// stage is what one scenario runs on: Redis, two services, and the load.
type stage struct {
	*host
	scenario
	findings
	servers

	settings settings
	dir      string // for logs
	services []*service.Service
	proxies  []*proxy.Proxy // one for each service, or none
	load     *load.Load
	hostile  http.Client // of clients that use more than their share
	balancer sync.WaitGroup
}

// servers is the Redis of a stage. One field is set, according to its layout.
type servers struct {
	node     *redistest.Node
	cluster  *redistest.ClusterNodes
	sentinel *redistest.SentinelNodes
}

// findings is what a scenario itself has noticed.
type findings struct {
	mu         sync.Mutex
	complaints []string
	measures   []string
}

const (
	servicesCount = 2
	warmUp        = 1500 * time.Millisecond
	coolDown      = 2 * time.Second
	drainLimit    = 25 * time.Second
	scenarioLimit = 2 * time.Minute
)

// matchSeats has the number of tickets of a match for each queue.
var matchSeats = map[string]int{"duel": 2, "squad": 4}

// queues is the configuration of these queues. A match's connection is its ID, so that clients of Open Match know it.
const queues = `{
	"duel": {"assigner": {"kind": "static", "connection": "{match}"}, "pendingTimeout": "5s", "assignmentTTL": "5m"},
	"squad": {"match": {"teams": 2, "teamSize": 2}, "assigner": {"kind": "static", "connection": "{match}"},
		"pendingTimeout": "5s", "assignmentTTL": "5m"}}`

// waitForReplica are options of the services in failover scenarios.
var waitForReplica = []string{"--channel-replicas", "1", "--ticket-replicas", "1"}

// perform runs a scenario and returns its result.
func perform(ctx context.Context, set settings, c scenario) report.Result {
	ctx, cancel := context.WithTimeout(ctx, scenarioLimit)
	defer cancel()
	started := time.Now()
	r := report.Result{Name: c.name, Fault: c.fault, Limits: c.limits}
	s := &stage{host: &host{name: c.name, ctx: ctx}, scenario: c, settings: set}
	dir, err := os.MkdirTemp("", "tidemark-chaos-")
	if err != nil {
		r.Broken = []string{err.Error()}
		return r
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	s.dir = dir
	transport := &http.Transport{MaxIdleConnsPerHost: queueClients}
	defer transport.CloseIdleConnections()
	s.hostile.Transport = transport
	finished := false
	s.run(func() {
		s.play(&r)
		finished = true
	})
	r.Broken = append(r.Broken, s.failed()...)
	if !finished {
		r.Broken = append(r.Broken, "the scenario did not finish")
	}
	if ctx.Err() != nil {
		r.Broken = append(r.Broken, fmt.Sprintf("aborted after %s", time.Since(started).Round(time.Second)))
	}
	r.Took = time.Since(started)
	r.Complaints, r.Measures = s.complaints, s.measures
	r.KeepLogs(set.logs, s.dir)
	return r
}

// play starts everything, causes the fault under load, and judges.
func (s *stage) play(r *report.Result) {
	s.startRedis()
	s.startServices()
	stop := s.startLoad()
	began := time.Now()
	s.pause(warmUp)
	s.inject(s)
	s.pause(max(coolDown, s.settings.time-time.Since(began)))
	s.load.Requests.Ended()
	stop()
	s.judge(r)
}

// must aborts the scenario if err is not nil: the run itself failed.
func (s *stage) must(err error) {
	if err != nil {
		s.Fatalf("%v", err)
	}
}

// pause waits. It aborts the scenario if the scenario has taken too long.
func (s *stage) pause(d time.Duration) { s.must(service.Pause(s.ctx, d)) }

// complain records a failure that clients notice. The scenario continues.
func (s *findings) complain(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.complaints = append(s.complaints, fmt.Sprintf(format, args...))
}

// note records a measurement for the table.
func (s *findings) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.measures = append(s.measures, fmt.Sprintf(format, args...))
}

func (s *stage) startRedis() {
	o := redistest.Options{Args: s.redis.args}
	if s.redis.binary != nil {
		o.Binary = s.redis.binary(s)
	}
	switch s.redis.layout {
	case standalone:
		o.Args = append([]string{"--appendonly", "yes", "--appendfsync", "everysec"}, o.Args...)
		s.node = redistest.Start(s, o)
		s.logsOf(s.node)
	case cluster:
		s.cluster = redistest.StartCluster(s, o)
		s.logsOf(s.cluster.Nodes()...)
	case sentinel:
		s.sentinel = redistest.StartSentinel(s, o)
		s.logsOf(append(s.sentinel.Nodes(), s.sentinel.Sentinels()...)...)
	}
}

// logsOf copies the logs of Redis servers before they are removed.
func (s *stage) logsOf(nodes ...*redistest.Node) {
	s.Cleanup(func() {
		for _, n := range nodes {
			text, err := os.ReadFile(filepath.Join(n.Dir(), "server.log"))
			if err == nil {
				err = os.WriteFile(filepath.Join(s.dir, "redis-"+strconv.Itoa(n.Port())+".log"), text, 0o600) //nolint:gosec // a folder of our own
			}
			if err != nil {
				s.Errorf("keep a log: %v", err)
			}
		}
	})
}

// redisFlags returns the flags with which a service finds Redis.
func (s *stage) redisFlags() []string {
	switch s.redis.layout {
	case cluster:
		return []string{"--redis", strings.Join(s.cluster.Addrs(), ",")}
	case sentinel:
		return []string{"--redis", strings.Join(s.sentinel.Addrs(), ","), "--redis-sentinel-master", redistest.MasterName}
	case standalone:
	}
	if s.proxied == toRedis {
		p := s.startProxy(s.node.Addr())
		s.proxies = append(s.proxies, p)
		return []string{"--redis", "redis://" + p.Addr()}
	}
	return []string{"--redis", s.node.URL()}
}

func (s *stage) startServices() {
	var starting sync.WaitGroup
	errs := make([]error, servicesCount)
	for i := range servicesCount {
		args := append([]string{"--queues", queues}, s.redisFlags()...)
		if s.failover {
			args = append(args, waitForReplica...)
		}
		one, err := service.New(s.ctx, s.settings.tidemark, s.dir, fmt.Sprintf("service-%d", i), append(args, s.flags...))
		s.must(err)
		s.services = append(s.services, one)
		starting.Go(func() { errs[i] = errors.Join(one.Start(s.ctx), one.AwaitReady(s.ctx)) })
	}
	starting.Wait()
	s.Cleanup(func() {
		for _, one := range s.services {
			if err := one.End(syscall.SIGTERM); err != nil {
				s.complain("%v", err)
			}
			one.Wait()
		}
	})
	s.must(errors.Join(errs...))
	ctx, cancel := context.WithCancel(s.ctx)
	var measuring sync.WaitGroup
	measuring.Go(func() {
		for service.Pause(ctx, 4*service.LookEvery) == nil {
			for _, one := range s.services {
				one.Measure()
			}
		}
	})
	s.Cleanup(func() {
		cancel()
		measuring.Wait()
	})
}

// startProxy starts a proxy that ends with the scenario.
func (s *stage) startProxy(target string) *proxy.Proxy {
	p, err := proxy.New(s.ctx, target)
	s.must(err)
	ctx, cancel := context.WithCancel(s.ctx)
	var running sync.WaitGroup
	running.Go(func() { p.Run(ctx) })
	s.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return p
}

// addresses returns where clients find the services.
func (s *stage) addresses() []load.Address {
	var all []load.Address
	for _, one := range s.services {
		address := load.Address{URL: one.URL(), GRPC: one.GRPC}
		if s.proxied == fromClients {
			rest, grpc := s.startProxy(one.Addr), s.startProxy(one.GRPC)
			s.proxies = append(s.proxies, rest, grpc)
			address = load.Address{URL: "http://" + rest.Addr(), GRPC: grpc.Addr()}
		}
		all = append(all, address)
	}
	return all
}

// startLoad starts the clients. stop waits until they have received everything, or a limit has passed.
func (s *stage) startLoad() (stop func()) {
	requests := oracle.NewRequests()
	servers, err := load.Connect(s.addresses(), requests)
	s.must(err)
	rules := oracle.Rules{Failover: s.failover}
	s.load = &load.Load{
		Servers: servers, Requests: requests,
		Messages: oracle.NewMessages(rules), Tickets: oracle.NewTickets(rules, matchSeats),
	}
	ctx, cancel := context.WithCancel(s.ctx)
	working, rest := context.WithCancel(ctx)
	s.Cleanup(func() {
		rest()
		cancel()
		s.load.Wait()
		s.balancer.Wait()
		servers.Close()
	})
	if s.balanced {
		s.balance(ctx, servers)
	}
	s.must(s.load.StartChannels(ctx, working, s.settings.channels()))
	s.load.StartPlayers(ctx, working, s.settings.players(max(s.players, 1)))
	return func() {
		rest()
		s.drain(ctx)
		cancel()
		s.load.Wait()
	}
}

// balance makes clients avoid services that are not ready, as a load balancer does.
func (s *stage) balance(ctx context.Context, servers *load.Servers) {
	for i, one := range s.services {
		s.balancer.Go(func() {
			for service.Pause(ctx, service.LookEvery) == nil {
				status, err := one.Status(ctx, "/readyz")
				servers.SetReady(i, err == nil && status == http.StatusOK)
			}
		})
	}
}

// drain waits until nothing is outstanding, and adds players to complete the last matches.
func (s *stage) drain(ctx context.Context) {
	limit := time.Now().Add(drainLimit)
	f := load.NewFiller(s.load, matchSeats)
	for time.Now().Before(limit) && ctx.Err() == nil {
		waiting := 0
		for queue := range matchSeats {
			waiting += s.load.Tickets.Waiting(queue)
		}
		if waiting == 0 && s.load.Messages.Missing() == 0 && s.load.Busy() == 0 {
			break
		}
		f.Fill(ctx)
		if service.Pause(ctx, 4*service.LookEvery) != nil {
			return
		}
	}
	if n := s.load.Busy(); n > 0 {
		s.complain("%d publishers and players had no response %s after the load", n, drainLimit)
	}
	audit, cancel := context.WithTimeout(ctx, drainLimit)
	defer cancel()
	if err := s.load.Audit(audit); err != nil {
		s.complain("read the tickets at the end: %v", err)
	}
}

func (s *stage) judge(r *report.Result) {
	r.Messages, r.Tickets, r.Requests = s.load.Messages.Judge(), s.load.Tickets.Judge(), s.load.Requests.Judge()
	for _, one := range s.services {
		r.Crashes = append(r.Crashes, one.Crashes()...)
		_, most := one.Memory()
		r.Peak = max(r.Peak, most)
	}
	if n := r.Tickets.Gone; n > 0 {
		s.note("%d tickets were lost and their players were notified", n)
	}
}
