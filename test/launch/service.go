// Package launch supports benchmarks and tests under faults outside of `go test`: a [Host] replaces a test, and a
// [Service] is a process of the service or of a program that it is compared with.
package launch

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/procfs"

	"github.com/tidemark-dev/tidemark/internal/pace"
	"github.com/tidemark-dev/tidemark/test/load"
	"github.com/tidemark-dev/tidemark/test/process"
)

// Service is a process that listens on addresses of its own. Its methods may be called by several goroutines at the
// same time.
type Service struct {
	HTTP  string // host:port
	GRPC  string // host:port
	Admin string // host:port of the listener that serves the metrics
	*process.Process

	name    string
	restart bool

	mu      sync.Mutex
	started int            // how often it was started
	ended   int            // the last of these starts that End has ended
	crashes []string       // last lines of the log when it exited by itself
	running sync.WaitGroup // supervisors
}

// Options describe a service.
type Options struct {
	Program string
	Args    []string
	// Listen has the flags before the addresses of HTTP, of gRPC and of the admin listener. Without a third flag the
	// metrics are served on the HTTP listener. An address with the flag "" is not added to Args.
	Listen []string
	Env    []string // nil: that of this process
	Name   string
	// Logs is the folder of the log. If it is empty, the process writes to standard error.
	Logs string
	// Restart starts the service again when it exits by itself, as a supervisor does.
	Restart bool
}

// RestartPause is the time before a service that has exited is started again.
const RestartPause = 500 * time.Millisecond

// checkEvery is the pause between two checks of whether a service answers.
const checkEvery = 20 * time.Millisecond

// New returns a service that is not started yet.
func New(ctx context.Context, o Options) (*Service, error) {
	s := &Service{name: o.Name, restart: o.Restart}
	addresses := []*string{&s.HTTP, &s.GRPC, &s.Admin}
	for i, flag := range o.Listen {
		address, err := FreeAddress(ctx)
		if err != nil {
			return nil, err
		}
		*addresses[i] = address
		if flag != "" {
			o.Args = append(o.Args, flag, address)
		}
	}
	s.Admin = cmp.Or(s.Admin, s.HTTP)
	s.Process = &process.Process{Program: o.Program, Args: o.Args, Env: o.Env, Dir: o.Logs}
	if o.Logs != "" {
		s.LogName = o.Name + ".log"
	}
	return s, nil
}

// Ports are below those of outgoing connections, so that a service can be restarted on its port, and above those of
// package redistest.
const (
	firstPort = 30000
	portCount = 2500
)

// nextPort counts the ports that were tried: none is used twice before all others.
var nextPort atomic.Int64

func init() { nextPort.Store(rand.Int64N(portCount)) } //nolint:gosec // no secret

// FreeAddress returns an address that is free.
func FreeAddress(ctx context.Context) (string, error) {
	var config net.ListenConfig
	var last error
	for range 100 {
		address := fmt.Sprintf("127.0.0.1:%d", firstPort+nextPort.Add(1)%portCount)
		l, err := config.Listen(ctx, "tcp", address)
		if err == nil {
			return address, l.Close()
		}
		last = err
	}
	return "", last
}

// Start starts the process, without waiting for it to answer.
func (s *Service) Start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.start(ctx)
}

// start is Start. The caller holds mu.
func (s *Service) start(ctx context.Context) error {
	if err := s.Process.Start(ctx); err != nil {
		return err
	}
	s.started++
	if s.restart {
		exited, start := s.Exited(), s.started
		s.running.Go(func() { s.supervise(ctx, exited, start) })
	}
	return nil
}

// supervise waits until the process of one start has ended, and restarts it unless End was called.
func (s *Service) supervise(ctx context.Context, exited <-chan struct{}, start int) {
	<-exited
	s.mu.Lock()
	asked := s.ended >= start
	if !asked {
		s.crashes = append(s.crashes, s.name+" exited: "+process.LastLines(s.Log(), 1))
	}
	s.mu.Unlock()
	if asked || !pace.Sleep(ctx, RestartPause) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended < start { // otherwise End was called during the pause
		_ = s.start(ctx) // fails if the scenario has started it already; other failures show in the requests
	}
}

// End ends the process with a signal, and waits until it has ended.
func (s *Service) End(sig syscall.Signal) error {
	s.mu.Lock()
	s.ended = s.started
	s.mu.Unlock()
	return s.Process.End(sig)
}

// Wait waits until the process will not be restarted. End must have been called.
func (s *Service) Wait() { s.running.Wait() }

// Crashes returns a description of each time that the process exited by itself.
func (s *Service) Crashes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.crashes...)
}

// Name returns the service's name.
func (s *Service) Name() string { return s.name }

// OK reports whether a GET of a path is answered with success.
func (s *Service) OK(ctx context.Context, path string) bool {
	_, err := load.Once(ctx, s.HTTP, load.Request("GET", path, ""))
	return err == nil
}

// Await returns when a GET of a path is answered with success. It fails when ctx ends, or when the process has ended
// and isn't restarted.
func (s *Service) Await(ctx context.Context, path string) error {
	for !s.OK(ctx, path) {
		if !s.restart && !s.Alive() {
			return fmt.Errorf("%s ended before it answered %s: %s", s.name, path, process.LastLines(s.Log(), 5))
		}
		if !pace.Sleep(ctx, checkEvery) {
			return s.unanswered(path, ctx.Err())
		}
	}
	return nil
}

// unanswered returns the error for a path that was not answered, which includes why the process last exited by itself.
func (s *Service) unanswered(path string, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.crashes); n > 0 {
		return fmt.Errorf("%s does not answer %s: %w; %s", s.name, path, err, s.crashes[n-1])
	}
	return fmt.Errorf("%s does not answer %s: %w", s.name, path, err)
}

// CPU returns the CPU time that the process has used.
func (s *Service) CPU() (time.Duration, error) { return CPU(s.PID()) }

// CPU returns the CPU time that a process has used.
func CPU(pid int) (time.Duration, error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return 0, err
	}
	stat, err := p.Stat()
	return time.Duration(stat.CPUTime() * float64(time.Second)), err
}

// Resident returns the process's resident memory in bytes, or 0 on systems without /proc.
func (s *Service) Resident() int {
	p, err := procfs.NewProc(s.PID())
	if err != nil {
		return 0
	}
	stat, err := p.Stat()
	if err != nil {
		return 0
	}
	return stat.RSS * os.Getpagesize()
}

// Metrics returns the text of the metrics.
func (s *Service) Metrics(ctx context.Context) ([]byte, error) {
	a, err := load.Once(ctx, s.Admin, load.Request("GET", "/metrics", ""))
	return a.Body, err
}

// Labelled returns the numbers of a metric by one of its labels. They are sums over the other labels. The number of a
// metric without labels is that of the label "".
func (s *Service) Labelled(ctx context.Context, name, label string) (map[string]float64, error) {
	all, err := s.Metrics(ctx)
	if err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(all))
	if err != nil {
		return nil, err
	}
	found := make(map[string]float64)
	for _, m := range families[name].GetMetric() {
		value := ""
		for _, l := range m.GetLabel() {
			if l.GetName() == label {
				value = l.GetValue()
			}
		}
		found[value] += m.GetGauge().GetValue() + m.GetCounter().GetValue()
	}
	return found, nil
}
