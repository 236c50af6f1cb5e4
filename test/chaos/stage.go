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
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tidemark-dev/tidemark/internal/pace"
	"github.com/tidemark-dev/tidemark/test/chaos/oracle"
	"github.com/tidemark-dev/tidemark/test/launch"
	"github.com/tidemark-dev/tidemark/test/proxy"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

// stage is the environment of one scenario: Redis, two services, and the load.
type stage struct {
	*launch.Host
	scenario
	findings
	redisServers

	settings settings
	dir      string // for logs
	services []*launch.Service
	proxies  []*proxy.Proxy // one for each service, or none
	clients  *clients
	hostile  http.Client   // of clients that use more than their share
	light    *launch.Child // a light client; nil: there is none
	lightSaw lightResult
	balancer sync.WaitGroup
	peak     atomic.Int64 // bytes, the largest resident memory of a service
	deadly   atomic.Bool  // directors die in every second fetch
}

// redisServers is the Redis of a stage. One field is set, according to its layout.
type redisServers struct {
	node     *redistest.Node
	cluster  *redistest.ClusterNodes
	sentinel *redistest.SentinelNodes
}

// findings are the scenario's own observations.
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
	readyLimit    = 20 * time.Second
	checkEvery    = 50 * time.Millisecond // the pause between two checks
)

// matchSeats has the number of tickets of a match for each queue.
var matchSeats = map[string]int{"duel": 2, "squad": 4, arena: 2}

// queues is the configuration of these queues. A match's connection is its ID, so that clients of Open Match know it.
const queues = `{"arena": {"director": "user", "pendingTimeout": "1s", "assignmentTTL": "5m"},
	"duel": {"assigner": {"kind": "static", "connection": "{match}"}, "pendingTimeout": "5s", "assignmentTTL": "5m"},
	"squad": {"match": {"teams": 2, "teamSize": 2}, "assigner": {"kind": "static", "connection": "{match}"},
		"pendingTimeout": "5s", "assignmentTTL": "5m"}}`

// waitForReplica are options of the services in failover scenarios.
var waitForReplica = []string{"--channel-replicas", "1", "--ticket-replicas", "1"}

// perform runs a scenario and returns its result.
func perform(ctx context.Context, set settings, c scenario) result {
	ctx, cancel := context.WithTimeout(ctx, scenarioLimit)
	defer cancel()
	started := time.Now()
	r := result{Name: c.name, Fault: c.fault, Limits: c.limits}
	s := &stage{Host: launch.NewHost(ctx, c.name), scenario: c, settings: set}
	dir, err := os.MkdirTemp("", "tidemark-chaos-")
	if err != nil {
		r.Broken = []string{err.Error()}
		return r
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	s.dir = dir
	transport := &http.Transport{MaxIdleConnsPerHost: 16, DialContext: dialFrom(attacker).DialContext}
	defer transport.CloseIdleConnections()
	s.hostile.Transport = transport
	finished := false
	s.Run(func() {
		s.play(&r)
		finished = true
	})
	r.Broken = append(r.Broken, s.Failures()...)
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

// play starts everything, causes the fault under load, and collects the result.
func (s *stage) play(r *result) {
	s.startRedis()
	s.startServices()
	stop := s.startLoad()
	began := time.Now()
	s.pause(warmUp)
	s.startLight()
	s.inject(s)
	s.pause(max(coolDown, s.settings.time-time.Since(began)))
	s.clients.Requests.Ended()
	stop()
	s.collect(r)
}

// pause waits. It aborts the scenario if the scenario has taken too long.
func (s *stage) pause(d time.Duration) {
	if !pace.Sleep(s.Context(), d) {
		s.Must(s.Context().Err())
	}
}

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
				path := filepath.Join(s.dir, "redis-"+strconv.Itoa(n.Port())+".log")
				err = os.WriteFile(path, text, 0o600) //nolint:gosec // a folder of our own
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
		args := append([]string{"--queues", queues, "--callout-allow", "127.0.0.1"}, s.redisFlags()...)
		if s.failover {
			args = append(args, waitForReplica...)
		}
		service, err := launch.New(s.Context(), launch.Options{
			Program: s.settings.tidemark, Args: append(append([]string{"serve"}, args...), s.flags...),
			Listen: []string{"--listen", "--grpc-listen", "--admin-listen"},
			Env:    s.env(),
			Name:   fmt.Sprintf("service-%d", i), Logs: s.dir, Restart: true,
		})
		s.Must(err)
		s.services = append(s.services, service)
		if s.previous {
			service.Program = s.previousProgram()
		}
		starting.Go(func() { errs[i] = errors.Join(service.Start(s.Context()), s.awaitReady(service)) })
	}
	starting.Wait()
	s.Cleanup(func() {
		for _, service := range s.services {
			if err := service.End(syscall.SIGTERM); err != nil {
				s.complain("%v", err)
			}
			service.Wait()
		}
	})
	s.Must(errors.Join(errs...))
	ctx, cancel := context.WithCancel(s.Context())
	var measuring sync.WaitGroup
	measuring.Go(func() {
		for pace.Sleep(ctx, 4*checkEvery) {
			s.peak.Store(max(s.peak.Load(), int64(s.resident())))
		}
	})
	s.Cleanup(func() {
		cancel()
		measuring.Wait()
	})
}

// env returns the environment of a process of the service.
func (s *stage) env() []string { return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir} }

// awaitReady waits until a service reports that it is ready.
func (s *stage) awaitReady(service *launch.Service) error {
	ctx, cancel := context.WithTimeout(s.Context(), readyLimit)
	defer cancel()
	return service.Await(ctx, "/readyz")
}

// startProxy starts a proxy that ends with the scenario.
func (s *stage) startProxy(target string) *proxy.Proxy {
	p, err := proxy.New(s.Context(), target)
	s.Must(err)
	ctx, cancel := context.WithCancel(s.Context())
	var running sync.WaitGroup
	running.Go(func() { p.Run(ctx) })
	s.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return p
}

// addresses returns the addresses at which clients reach the services.
func (s *stage) addresses() []endpoint {
	var all []endpoint
	for _, service := range s.services {
		address := endpoint{URL: "http://" + service.HTTP, GRPC: service.GRPC}
		if s.proxied == fromClients {
			rest, grpc := s.startProxy(service.HTTP), s.startProxy(service.GRPC)
			s.proxies = append(s.proxies, rest, grpc)
			address = endpoint{URL: "http://" + rest.Addr(), GRPC: grpc.Addr()}
		}
		all = append(all, address)
	}
	return all
}

// startLoad starts the clients. stop waits until they have received everything, or a limit has passed.
func (s *stage) startLoad() (stop func()) {
	requests := oracle.NewRequests()
	servers, err := connect(s.addresses(), requests)
	s.Must(err)
	rules := oracle.Rules{Failover: s.failover, Partial: arena}
	s.clients = &clients{
		Servers: servers, Requests: requests,
		Messages: oracle.NewMessages(rules), Tickets: oracle.NewTickets(rules, matchSeats), Producers: oracle.NewProducers(),
	}
	ctx, cancel := context.WithCancel(s.Context())
	working, rest := context.WithCancel(ctx)
	s.Cleanup(func() {
		rest()
		cancel()
		s.clients.Wait()
		s.balancer.Wait()
		servers.Close()
	})
	if s.balanced {
		s.balance(ctx, servers)
	}
	channels, players := s.settings.channels(), s.settings.players(max(s.players, 1))
	if s.repeated {
		channels.Publishers, channels.Handling = 8, time.Second
	}
	s.Must(s.clients.StartDirectors(ctx, &s.deadly))
	s.Must(s.clients.StartChannels(ctx, working, channels))
	s.clients.StartPlayers(ctx, working, players)
	if s.producers {
		s.Must(s.clients.StartProducers(ctx, working, s.failover, channels.Pause))
	}
	return func() {
		rest()
		s.drain(ctx)
		cancel()
		s.clients.Wait()
	}
}

// balance makes clients avoid services that are not ready, as a load balancer does.
func (s *stage) balance(ctx context.Context, servers *servers) {
	for i, service := range s.services {
		s.balancer.Go(func() {
			for pace.Sleep(ctx, checkEvery) {
				servers.SetReady(i, service.OK(ctx, "/readyz") && servers.connects(i))
			}
		})
	}
}

// drain waits until nothing is outstanding, and adds players to complete the last matches.
func (s *stage) drain(ctx context.Context) {
	limit := time.Now().Add(drainLimit)
	f := newFiller(s.clients, matchSeats)
	for time.Now().Before(limit) && ctx.Err() == nil {
		busy, waiting := s.clients.Busy(), 0 // first: what a publisher has published when it ends must be delivered, too
		for queue := range matchSeats {
			waiting += s.clients.Tickets.Waiting(queue)
		}
		if busy == 0 && waiting == 0 && s.clients.Messages.Missing() == 0 && s.clients.Producers.Reading() == 0 {
			break
		}
		f.Fill(ctx)
		if !pace.Sleep(ctx, 4*checkEvery) {
			return
		}
	}
	if n := s.clients.Busy(); n > 0 {
		s.complain("%d publishers and players had no response %s after the load", n, drainLimit)
	}
	audit, cancel := context.WithTimeout(ctx, drainLimit)
	defer cancel()
	if err := s.clients.Audit(audit); err != nil {
		s.complain("read the tickets at the end: %v", err)
	}
}

func (s *stage) collect(r *result) {
	r.Messages, r.Tickets = s.clients.Messages.Verdict(), s.clients.Tickets.Verdict()
	r.Producers, r.Requests = s.clients.Producers.Verdict(), s.clients.Requests.Verdict()
	for _, service := range s.services {
		r.Crashes = append(r.Crashes, service.Crashes()...)
	}
	r.Peak = int(s.peak.Load())
	s.checkLight()
	if p := r.Producers; s.producers {
		s.note("%d publishes of producers were acknowledged in %d epochs, %d of them again, and %d of earlier epochs were "+
			"refused", p.Acknowledged, p.Epochs, p.Repeats, p.Fenced)
	}
	if n := r.Tickets.Gone; n > 0 {
		s.note("%d tickets were lost and their players were notified", n)
	}
}
