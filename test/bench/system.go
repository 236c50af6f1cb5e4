package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/internal/pace"
	"github.com/tidemark-dev/tidemark/test/launch"
	"github.com/tidemark-dev/tidemark/test/load"
)

// bench runs one part of the benchmarks. Its host ends the part at the first failure.
type bench struct {
	*launch.Host
	settings
	*page
}

// settings are the parameters of all parts.
type settings struct {
	binary   string // of the service
	against  string // the binary of an earlier release; empty: none
	rounds   int    // how often each figure is measured
	requests int    // in a round
	peers    peers
}

// system holds the measured processes: a server, a floor, and the server's Redis. If a method fails it ends the part,
// so only the part's goroutine may call it.
type system struct {
	*bench
	server *service
	floor  *service
	redis  *redisServers

	started []*service
}

// start starts a system. Its server gets further arguments of serve.
func (b *bench) start(args ...string) *system { return b.startOn(b.openRedis(), args...) }

// startAlone returns a system without a server and Redis, for a peer or for bare handlers.
func (b *bench) startAlone() *system {
	u := &system{bench: b, redis: &redisServers{bench: b}}
	b.Cleanup(u.stop) // if the part fails
	return u
}

func (b *bench) startOn(redis *redisServers, args ...string) *system {
	u := &system{bench: b, redis: redis}
	b.Cleanup(u.stop) // if the part fails
	u.server = u.addServer(args...)
	u.startFloor()
	return u
}

// startFloor starts bare handlers.
func (u *system) startFloor() {
	self, err := os.Executable()
	u.Must(err)
	u.floor = u.run("floor", self, nil, "-floor", "-floor-frontend")
}

// stop stops all processes, the last one first. It may be called again.
func (u *system) stop() {
	for i := len(u.started) - 1; i >= 0; i-- {
		u.started[i].end(syscall.SIGTERM)
	}
	u.redis.close()
}

// addServer starts one more server on the same Redis.
func (u *system) addServer(args ...string) *service {
	args = append(append([]string{"serve", "--log-level", "error"}, u.redis.args...), args...)
	return u.run("server", u.binary, args, "--listen", "--grpc-listen", "--admin-listen")
}

// addNode starts a node of a sharded cache on the same Redis.
func (u *system) addNode(args ...string) *service {
	args = append(append([]string{"shards", "serve", "--log-level", "error"}, u.redis.args...), args...)
	return u.run("node", u.binary, args, "--admin-listen", "--listen")
}

// run starts a process, and returns when it is ready.
func (u *system) run(name, program string, args []string, listen ...string) *service {
	process, err := launch.New(u.Context(), launch.Options{Program: program, Args: args, Listen: listen, Name: name})
	u.Must(err)
	s := &service{Service: process, bench: u.bench}
	u.started = append(u.started, s)
	u.Must(s.Start(u.Context()))
	u.Must(process.Await(u.Context(), "/livez"))
	return s
}

// request sends one request to the server.
func (u *system) request(method, path, body string) load.Answer {
	return u.send(u.server.HTTP, method, path, body)
}

// admin sends one request to the server's admin listener.
func (u *system) admin(method, path, body string) { u.send(u.server.Admin, method, path, body) }

func (u *system) send(address, method, path, body string) load.Answer {
	a, err := load.Once(u.Context(), address, load.Request(method, path, body))
	u.Must(err)
	return a
}

// repeat sends n requests to the server, and returns the last answer.
func (u *system) repeat(n int, next load.Maker) load.Answer {
	return u.repeatAt(u.server.HTTP, n, next)
}

func (u *system) repeatAt(address string, n int, next load.Maker) load.Answer {
	last, err := load.Repeat(u.Context(), address, n, next)
	u.Must(err)
	return last
}

// compare sends the same requests in turns to the server and, answered with the server's own last answer, to the floor.
func (u *system) compare(next load.Maker) (pairs []pair) {
	for range u.rounds {
		ours, last := u.measureServer(next)
		pairs = append(pairs, pair{ours, u.measureFloor(next, last)})
	}
	return pairs
}

// measureServer returns the server's CPU seconds per request, and its last answer.
func (u *system) measureServer(next load.Maker) (seconds float64, last load.Answer) {
	seconds = perCall(u.requests, u.server.cpu, func() { last = u.repeat(u.requests, next) })
	return seconds, last
}

// measureFloor returns the CPU seconds per request of a bare handler that returns the same answer.
func (u *system) measureFloor(next load.Maker, last load.Answer) float64 {
	u.send(u.floor.HTTP, "PUT", "/answer?status="+strconv.Itoa(last.Status), string(last.Body))
	return perCall(u.requests, u.floor.cpu, func() { u.repeatAt(u.floor.HTTP, u.requests, next) })
}

// perCall returns the seconds of CPU time that are used for each of n calls.
func perCall(n int, used func() time.Duration, call func()) float64 {
	before := used()
	call()
	return (used() - before).Seconds() / float64(n)
}

// each calls do for 0 to n-1, many at the same time.
func (b *bench) each(n int, do func(ctx context.Context, i int) error) {
	group, ctx := errgroup.WithContext(b.Context())
	group.SetLimit(100)
	for i := range n {
		group.Go(func() error { return do(ctx, i) })
	}
	b.Must(group.Wait())
}

// awaitLimit bounds the time until a condition holds.
const awaitLimit = 5 * time.Minute

// awaitIdle returns when the server has sent no script for a moment.
func (u *system) awaitIdle() {
	asked := -1.0
	u.await("no fetch reads", func() bool {
		before := asked
		asked = u.redis.calls("evalsha")
		return asked == before
	})
}

// await polls until a condition holds.
func (b *bench) await(what string, holds func() bool) {
	for started := time.Now(); !holds(); b.sleep(200 * time.Millisecond) {
		if time.Since(started) > awaitLimit {
			b.Fatalf("%s: not so after %s", what, awaitLimit)
		}
	}
}

// sleep waits. It ends the part when the run is interrupted.
func (b *bench) sleep(d time.Duration) {
	if !pace.Sleep(b.Context(), d) {
		b.Must(b.Context().Err())
	}
}

// service is a process of a system. Its methods that fail end the part.
type service struct {
	*launch.Service
	bench *bench
}

// end ends the process by a signal, and returns when it has ended.
func (s *service) end(signal syscall.Signal) {
	if err := s.End(signal); err != nil {
		progress("%v", err)
	}
}

// cpu returns the CPU time that the process has used.
func (s *service) cpu() time.Duration {
	used, err := s.CPU()
	s.bench.Must(err)
	return used
}

// metric returns one number without labels from the metrics.
func (s *service) metric(name string) float64 {
	value, ok := s.labelled(name, "")[""]
	if !ok {
		s.bench.Fatalf("%s has no metric %s", s.Name(), name)
	}
	return value
}

// labelled returns the numbers of a metric by one of its labels.
func (s *service) labelled(name, label string) map[string]float64 {
	values, err := s.Labelled(s.bench.Context(), name, label)
	s.bench.Must(err)
	return values
}

// resident returns the process's resident memory in bytes.
func (s *service) resident() float64 { return s.metric("process_resident_memory_bytes") }

// live returns approximately how many bytes were live after the process's last garbage collection.
func (s *service) live() float64 {
	return s.metric("go_memstats_next_gc_bytes") / (1 + s.metric("go_gc_gogc_percent")/100)
}

// subscriberPath is the path of a subscriber of a channel.
func subscriberPath(channel, subscriber string) string {
	return fmt.Sprintf("/v1/channels/%s/subscribers/%s", channel, subscriber)
}

// subscribe creates n subscribers. path returns that of the i-th, from 0.
func (u *system) subscribe(n int, path func(i int) string) {
	u.repeat(n, func(n int) []byte { return load.Request("PUT", path(n-1), "") })
}
