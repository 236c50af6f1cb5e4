package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tidemark-dev/tidemark/internal/pace"
	"github.com/tidemark-dev/tidemark/test/launch"
	"github.com/tidemark-dev/tidemark/test/redistest"
	"github.com/tidemark-dev/tidemark/test/report"
)

const (
	authorCount    = 100
	changedAuthors = 20
	authorReaders  = 10
	// slowestRead limits a read while Redis hangs: what others have changed is asked of nodes after a second.
	slowestRead = 3 * time.Second
	// reachNodes is the time for nodes to read the last change. Redis hangs for longer than a service remembers what it
	// has written itself.
	reachNodes = 200 * time.Millisecond
)

// authors are values of the cache, which readers read all the time.
type authors struct {
	versions [authorCount]atomic.Int64 // written

	mu      sync.Mutex
	reads   int
	failed  int
	last    error // of a failed read
	slowest time.Duration
}

func stopRedisOfShards(s *stage) {
	nodes, a := s.startNodes(s.node), new(authors)
	for id := range authorCount {
		s.Must(a.write(s.Context(), s, id))
	}
	s.pause(2 * time.Second) // nodes have all of them
	ctx, cancel := context.WithCancel(s.Context())
	var reading sync.WaitGroup
	for i := range authorReaders {
		reading.Go(func() { a.read(ctx, s, i%servicesCount) })
	}
	s.pause(time.Second)
	for id := range changedAuthors {
		s.Must(a.write(s.Context(), s, id))
	}
	s.pause(reachNodes)
	s.node.Pause(s)
	for range 7 {
		s.signal(nodes, syscall.SIGSTOP)
		s.pause(60 * time.Millisecond)
		s.signal(nodes, syscall.SIGCONT)
		s.pause(time.Second)
	}
	cancel()
	reading.Wait()
	s.node.Resume(s)
	s.checkAuthors(a)
}

// startNodes starts two data centres of nodes for authors, each with two shards, on a Redis.
func (s *stage) startNodes(on *redistest.Node) []*launch.Service {
	dcs := []string{"a", "b"}
	if text, err := s.tidemark("shards", "layout", "--redis", on.URL(), "--cache", "author", "--shards", "2",
		"--dc", dcs[0], "--dc", dcs[1]); err != nil {
		s.Fatalf("%v: %s", err, text)
	}
	var nodes []*launch.Service
	for i := range 2 * len(dcs) {
		host := "node-" + strconv.Itoa(i)
		service, err := launch.New(s.Context(), launch.Options{
			Program: s.settings.tidemark, Name: host, Logs: s.dir,
			Args: []string{"shard", "serve", "--redis", on.URL(), "--cache", "author", "--dc", dcs[i%len(dcs)],
				"--host", host, "--ping-period", "200ms", "--lease-ttl", "12s"},
			Listen: []string{"--admin-listen", "--listen"},
			Env:    append(s.env(), "GOMAXPROCS=1"),
		})
		s.Must(err)
		s.Must(service.Start(s.Context()))
		s.Cleanup(func() {
			if err := service.End(syscall.SIGKILL); err != nil {
				s.complain("%v", err)
			}
		})
		nodes = append(nodes, service)
	}
	for _, node := range nodes {
		s.Must(s.awaitReady(node))
	}
	return nodes
}

func (s *stage) signal(all []*launch.Service, sig syscall.Signal) {
	for _, service := range all {
		s.Must(service.Signal(sig))
	}
}

// write writes the next version of an author through the first service.
func (a *authors) write(ctx context.Context, s *stage, id int) error {
	version := a.versions[id].Load() + 1
	_, err := s.send(ctx, s.author(http.MethodPut, 0, id, fmt.Sprintf(`{"id":%d,"name":"%d"}`, id, version)))
	if err == nil {
		a.versions[id].Store(version)
	}
	return err
}

// read reads random authors through a service until ctx ends. The service that wrote them must not return earlier
// versions.
func (a *authors) read(ctx context.Context, s *stage, service int) {
	for pace.Sleep(ctx, time.Millisecond) {
		id := rand.IntN(authorCount) //nolint:gosec // no secret
		least, began := a.versions[id].Load(), time.Now()
		answer, err := s.send(ctx, s.author(http.MethodGet, service, id, ""))
		took := time.Since(began)
		if ctx.Err() != nil {
			return
		}
		var found struct {
			Name string `json:"name"`
		}
		if err == nil {
			err = json.Unmarshal(answer.text, &found)
		}
		if version, _ := strconv.ParseInt(found.Name, 10, 64); err == nil && service == 0 && version < least {
			err = fmt.Errorf("author %d has version %d after %d was written", id, version, least)
		}
		a.mu.Lock()
		a.reads, a.slowest = a.reads+1, max(a.slowest, took)
		if err != nil {
			a.failed, a.last = a.failed+1, err
		}
		a.mu.Unlock()
	}
}

// author returns a request for an author to a service.
func (s *stage) author(method string, service, id int, body string) request {
	return request{method, "http://" + s.services[service].HTTP + "/v1/cache/author/" + strconv.Itoa(id), body}
}

func (s *stage) checkAuthors(a *authors) {
	s.note("%d authors were read, %d reads failed, the slowest took %s", a.reads, a.failed,
		report.WholeMillis(a.slowest))
	if a.failed > 0 {
		s.complain("%d of %d reads of authors failed, the last with: %v", a.failed, a.reads, a.last)
	}
	if a.slowest > slowestRead {
		s.complain("a read of an author took %s, more than %s", report.WholeMillis(a.slowest),
			report.WholeMillis(slowestRead))
	}
}

// flushShards deletes all keys of a Redis of its own under nodes of shards: they claim their shards again, and none
// ends.
func flushShards(s *stage) {
	redis := redistest.Start(s, redistest.Options{})
	nodes := s.startNodes(redis)
	status := func() string {
		text, err := s.tidemark("shards", "status", "--redis", redis.URL(), "--cache", "author", "--check")
		if err != nil {
			return ""
		}
		return strings.Join(holders(text), "\n")
	}
	before := status()
	for range 2 {
		s.Must(redis.Do(s, "FLUSHALL").Error())
		began := time.Now()
		for _, node := range nodes { // each is ready again, which it wasn't without a claim
			s.Must(s.retry(func() error {
				if node.OK(s.Context(), "/readyz") {
					return errors.New(node.Name() + " hasn't noticed that it has no claim")
				}
				return nil
			}))
		}
		for _, node := range nodes {
			s.Must(s.awaitReady(node))
		}
		s.note("all shards had their nodes again %s after FLUSHALL", time.Since(began).Round(time.Second))
	}
	if after := status(); before == "" || after != before {
		s.complain("the shards' nodes were\n%s\nand are\n%s", before, after)
	}
	for _, node := range nodes {
		if !node.Alive() {
			s.complain("%s has ended", node.Name())
		}
	}
}

// holders returns the shards and hosts of the output of tidemark shards status.
func holders(text string) (all []string) {
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) > 4 {
			all = append(all, strings.Join(fields[:5], " "))
		}
	}
	return all
}

// tidemark runs a command, and returns its output.
func (s *stage) tidemark(args ...string) (string, error) {
	cmd := exec.CommandContext(s.Context(), s.settings.tidemark, args...) //nolint:gosec // the binary under test
	cmd.Env = s.env()
	text, err := cmd.CombinedOutput()
	return string(text), err
}

// startWithEviction starts programs that must refuse a Redis that evicts what they keep there.
func startWithEviction(s *stage) {
	evicts := redistest.Start(s, redistest.Options{Args: []string{"--maxmemory", "100mb", "--maxmemory-policy",
		"allkeys-lru"}}).URL()
	listen := []string{"--listen", "127.0.0.1:0", "--admin-listen", "off"}
	serve := append([]string{"serve", "--grpc-listen", "off", "--key-prefix", "evicts:"}, listen...)
	for _, args := range [][]string{
		append(serve, "--redis", evicts),
		append(serve, "--redis", evicts, "--records", "off"),
		append(serve, "--redis", s.node.URL(), "--tickets-redis", evicts),
		append(serve, "--redis", s.node.URL(), "--tickets-redis", evicts, "--records", "off"),
		append(serve, "--redis", s.node.URL(), "--sessions-redis", evicts),
		append([]string{"shard", "serve", "--redis", evicts, "--cache", "author", "--dc", "a"}, listen...),
	} {
		text, err := s.tidemark(args...)
		if err == nil || !strings.Contains(text, "evicts (maxmemory-policy allkeys-lru)") {
			s.complain("tidemark %s: %v: %s", strings.Join(args, " "), err, text)
		}
	}
}
