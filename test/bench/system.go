package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
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

// start starts a system with a Redis of its own. Its server gets further arguments of serve.
func (b *bench) start(args ...string) *system { return b.startOn(b.openRedis(), args...) }

// startOn starts a system.
func (b *bench) startOn(redis *redisServers, args ...string) *system {
	u := b.startAlone(redis)
	u.server = u.addServer(args...)
	u.startFloor()
	return u
}

// startAlone returns a system without a server, for a peer or for bare handlers.
func (b *bench) startAlone(redis *redisServers) *system {
	u := &system{bench: b, redis: redis}
	b.Cleanup(u.stop) // if the part fails
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

// run starts a process that listens at the addresses of some flags, and returns when it is ready.
func (u *system) run(name, program string, args []string, listen ...string) *service {
	return u.launch(launch.Options{Program: program, Args: args, Listen: listen, Name: name}, "/livez", nil)
}

// launch starts a process, and returns when it answers a path. configure may return other arguments.
func (u *system) launch(o launch.Options, alive string, configure func(p *launch.Service) []string) *service {
	process, err := launch.New(u.Context(), o)
	u.Must(err)
	if configure != nil {
		process.Args = configure(process)
	}
	s := &service{Service: process, bench: u.bench}
	u.started = append(u.started, s)
	u.Must(s.Start(u.Context()))
	u.Must(s.Await(u.Context(), alive))
	return s
}

// request sends one request to the server.
func (u *system) request(method, path, body string) load.Answer {
	return u.send(u.server.HTTP, load.Request(method, path, body))
}

// admin sends one request to the server's admin listener.
func (u *system) admin(method, path, body string) {
	u.send(u.server.Admin, load.Request(method, path, body))
}

func (u *system) send(address string, request []byte) load.Answer {
	a, err := load.Once(u.Context(), address, request)
	u.Must(err)
	return a
}

// repeat sends n requests to the server.
func (u *system) repeat(n int, next load.Maker) { u.repeatAt(u.server.HTTP, n, next) }

// repeatAt sends n requests, and returns the last answer.
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

// measureServer returns the server's CPU time per request, and its last answer.
func (u *system) measureServer(next load.Maker) (used time.Duration, last load.Answer) {
	used = perCall(u.requests, u.server.cpu, func() { last = u.repeatAt(u.server.HTTP, u.requests, next) })
	return used, last
}

// measureBoth returns the CPU time per request of the server and of Redis.
func (u *system) measureBoth(next load.Maker) (server, redis time.Duration) {
	redis = perCall(u.requests, u.redis.cpu, func() { server, _ = u.measureServer(next) })
	return server, redis
}

// measureFloor returns the CPU time per request of a bare handler that returns the same answer.
func (u *system) measureFloor(next load.Maker, last load.Answer) time.Duration {
	u.send(u.floor.HTTP, load.Request(http.MethodPut, "/answer?status="+strconv.Itoa(last.Status), string(last.Body)))
	return perCall(u.requests, u.floor.cpu, func() { u.repeatAt(u.floor.HTTP, u.requests, next) })
}

// perCall returns the CPU time that is used for each of n calls.
func perCall(n int, used func() time.Duration, call func()) time.Duration {
	before := used()
	call()
	return (used() - before) / time.Duration(n)
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
	last := -1.0
	u.await("no fetch reads", func() bool {
		before := last
		last = u.redis.calls("evalsha")
		return last == before
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
func (s *service) resident() float64 { return float64(s.Resident()) }

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
	u.repeat(n, func(n int) []byte { return load.Request(http.MethodPut, path(n-1), "") })
}

// numbered returns the paths of a subscriber of each of some channels.
func numbered(channel string) func(i int) string {
	return func(i int) string { return subscriberPath(channel+"-"+strconv.Itoa(i), "s") }
}

// publishes returns a maker of publishes to some channels, whose IDs begin with prefix.
func publishes(channel, prefix string, headers ...string) load.Maker {
	return func(n int) []byte {
		return load.Request(http.MethodPut, fmt.Sprintf("/v1/channels/%s-%d/messages/%s-%d", channel, n%channelCount, prefix, n),
			messageContent, headers...)
	}
}

// fetches returns a maker of fetches from some channels.
func fetches(path func(i int) string, query string) load.Maker {
	return func(n int) []byte { return load.Request(http.MethodGet, path(n%channelCount)+"/messages"+query, "") }
}

// usage is the resources used: CPU time, also by the load, commands sent to Redis, and their bytes.
type usage struct {
	server, redis, load time.Duration
	commands            map[string]float64
	in, out             float64 // bytes that Redis received and sent
}

// plainCommands are the commands that the service sends outside of scripts, and that no script runs: Redis counts both
// together.
var plainCommands = []string{"ssubscribe", "sunsubscribe", "xread", "xdel", "xtrim"}

// meter reads the resources used up to now.
type meter struct {
	system   *system
	servers  []*service
	peer     bool // the servers are those of others: their commands aren't counted
	readings []usage
}

// read is called at the beginning and at the end. What it costs itself isn't between the two readings.
func (m *meter) read() {
	u := usage{commands: make(map[string]float64)}
	if first := len(m.readings) == 0; first {
		m.count(&u)
		m.times(&u)
	} else {
		m.times(&u)
		m.count(&u)
	}
	m.readings = append(m.readings, u)
}

// times reads CPU times.
func (m *meter) times(u *usage) {
	u.redis, u.load = m.system.redis.cpu(), ownCPU()
	for _, server := range m.servers {
		u.server += server.cpu()
	}
}

// count reads the number of commands, and of bytes.
func (m *meter) count(u *usage) {
	stats := m.system.redis.numbers("stats")
	u.in, u.out = stats["total_net_input_bytes"], stats["total_net_output_bytes"]
	if m.peer {
		return
	}
	for _, server := range m.servers {
		for name, calls := range server.labelled("tidemark_redis_scripts_total", "script") {
			u.commands[name] += calls
		}
	}
	for _, command := range plainCommands {
		u.commands[strings.ToUpper(command)] = m.system.redis.calls(command)
	}
}

// during returns what each of n calls uses.
func (m *meter) during(n int, calls func()) usage {
	m.read()
	calls()
	m.read()
	return m.per(n)
}

// ownCPU returns the CPU time that this process has used.
func ownCPU() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		panic(err) // it can't fail for the process itself
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// per returns the usage of each of n calls or tickets between the two readings.
func (m *meter) per(n int) usage {
	from, to := m.readings[0], m.readings[1]
	per := usage{
		server: (to.server - from.server) / time.Duration(n), redis: (to.redis - from.redis) / time.Duration(n),
		load: (to.load - from.load) / time.Duration(n),
		in:   (to.in - from.in) / float64(n), out: (to.out - from.out) / float64(n), commands: make(map[string]float64),
	}
	for name, calls := range to.commands {
		per.commands[name] = (calls - from.commands[name]) / float64(n)
	}
	return per
}

// calls returns all commands together.
func (u usage) calls() (sum float64) {
	for _, n := range u.commands {
		sum += n
	}
	return sum
}

// kinds names the commands, the most frequent first.
func (u usage) kinds() string {
	names := slices.SortedFunc(maps.Keys(u.commands), func(a, b string) int {
		return cmp.Or(cmp.Compare(u.commands[b], u.commands[a]), cmp.Compare(a, b))
	})
	var kinds []string
	for _, name := range names {
		if u.commands[name] >= 0.005 {
			kinds = append(kinds, fmt.Sprintf("%s %.2f", name, u.commands[name]))
		}
	}
	return strings.Join(kinds, ", ")
}
