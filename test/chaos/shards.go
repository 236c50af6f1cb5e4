package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tidemark-dev/tidemark/internal/pace"
	"github.com/tidemark-dev/tidemark/test/launch"
	"github.com/tidemark-dev/tidemark/test/redistest"
	"github.com/tidemark-dev/tidemark/test/report"
)

// readTier are scenarios of caches that are read through nodes of shards.
func readTier() []scenario {
	return []scenario{{
		name: "redis-stop-shards", fault: "SIGSTOP of Redis for 8 s while authors are read through nodes of shards, " +
			"right after 20 were changed; meanwhile SIGSTOP of all nodes for 60 ms, every second",
		flags:  []string{"--cache-shards", "author", "--shard-ping-period", "200ms"},
		limits: limits{Gap: 10 * time.Second}, inject: stopRedisOfShards,
	}}
}

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
	s.judgeAuthors(a)
}

// startNodes starts two data centres of nodes for authors, each with two shards, on a Redis.
func (s *stage) startNodes(on *redistest.Node) []*launch.Service {
	dcs := []string{"a", "b"}
	layout := exec.CommandContext(s.Context(), s.settings.tidemark, //nolint:gosec // the binary under test
		"shards", "layout", "--redis", on.URL(), "--cache", "author", "--shards", "2", "--dc", dcs[0], "--dc", dcs[1])
	text, err := layout.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, text)
	}
	s.Must(err)
	var nodes []*launch.Service
	for i := range 2 * len(dcs) {
		host := "node-" + strconv.Itoa(i)
		service, err := launch.New(s.Context(), launch.Options{
			Program: s.settings.tidemark, Name: host, Logs: s.dir,
			Args: []string{"shard", "serve", "--redis", on.URL(), "--cache", "author", "--dc", dcs[i%len(dcs)],
				"--host", host, "--ping-period", "200ms", "--lease-ttl", "12s"},
			Listen: []string{"--admin-listen", "--listen"},
			Env:    []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir, "GOMAXPROCS=1"},
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
	_, err := s.author(ctx, http.MethodPut, 0, id, fmt.Sprintf(`{"id":%d,"name":"%d"}`, id, version))
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
		text, err := s.author(ctx, http.MethodGet, service, id, "")
		took := time.Since(began)
		if ctx.Err() != nil {
			return
		}
		var found struct {
			Name string `json:"name"`
		}
		if err == nil {
			err = json.Unmarshal(text, &found)
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

// author sends a request for an author to a service, and returns the body of the answer.
func (s *stage) author(ctx context.Context, method string, service, id int, body string) ([]byte, error) {
	url := "http://" + s.services[service].HTTP + "/v1/cache/author/" + strconv.Itoa(id)
	answer, err := s.request(ctx, method, url, body)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(answer.Body)
	err = errors.Join(err, answer.Body.Close())
	if err == nil && answer.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("%s author %d: %s: %s", method, id, answer.Status, text)
	}
	return text, err
}

func (s *stage) judgeAuthors(a *authors) {
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
