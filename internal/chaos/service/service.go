// Package service runs processes of `tidemark serve` for chaos runs, and restarts those that exit by themselves. Start with
// [New].
package service

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tidemark-dev/tidemark/internal/process"
)

// Service is a process of `tidemark serve`. If it exits by itself, it is restarted, as by a supervisor.
type Service struct {
	Name    string
	Addr    string // host:port
	GRPC    string // host:port of the listener of gRPC
	Admin   string // host:port of the admin listener
	Process *process.Process

	mu       sync.Mutex
	started  int            // how often it was started
	ended    int            // the last of these starts that End has ended
	crashes  []string       // last lines of the log when it exited by itself
	running  sync.WaitGroup // supervisors
	resident int            // memory, in bytes
	peak     int            // of resident
}

// Times of services.
const (
	readyLimit   = 20 * time.Second
	RestartPause = 500 * time.Millisecond // before a service is restarted
	LookEvery    = 50 * time.Millisecond  // the pause between two checks
)

// New returns a service that is not started yet. args are its flags besides --listen. Its log is in dir.
func New(ctx context.Context, program, dir string, name string, args []string) (*Service, error) {
	address, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	forGRPC, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	admin, err := freeAddress(ctx)
	return &Service{Name: name, Addr: address, GRPC: forGRPC, Admin: admin, Process: &process.Process{
		Program: program, Args: append([]string{"serve", "--listen", address, "--grpc-listen", forGRPC, "--admin-listen", admin}, args...),
		Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}, Dir: dir, LogName: name + ".log",
	}}, err
}

// Ports are below those of outgoing connections, so that a service can be restarted on its port, and above those of package
// redistest.
const (
	firstPort = 30000
	portCount = 2500
)

// nextPort counts the ports that were tried: none is given out twice before all others.
var nextPort atomic.Int64

func init() { nextPort.Store(rand.Int64N(portCount)) } //nolint:gosec // no secret

// freeAddress returns an address that is free.
func freeAddress(ctx context.Context) (string, error) {
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

// URL returns the base URL.
func (s *Service) URL() string { return "http://" + s.Addr }

// Start starts the process, without waiting for it to be ready.
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
	exited, start := s.Process.Exited(), s.started
	s.running.Go(func() { s.supervise(ctx, exited, start) })
	return nil
}

// supervise waits until the process of one start has ended, and restarts it unless End was called.
func (s *Service) supervise(ctx context.Context, exited <-chan struct{}, start int) {
	<-exited
	s.mu.Lock()
	asked := s.ended >= start
	if !asked {
		s.crashes = append(s.crashes, s.Name+" exited: "+process.LastLines(s.Process.Log(), 1))
	}
	s.mu.Unlock()
	if asked || Pause(ctx, RestartPause) != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended < start { // else End was called in the pause
		_ = s.start(ctx) // fails if the scenario has started it; otherwise requests will fail
	}
}

// AwaitReady waits until the service reports that it is ready.
func (s *Service) AwaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	for {
		if status, err := s.Status(ctx, "/readyz"); err == nil && status == http.StatusOK {
			return nil
		}
		if err := Pause(ctx, LookEvery); err != nil {
			return fmt.Errorf("%s is not ready: %w", s.Name, err)
		}
	}
}

// Status returns the status of a response.
func (s *Service) Status(ctx context.Context, path string) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL()+path, nil)
	if err != nil {
		return 0, err
	}
	request.Close = true // each check uses a new connection
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

// Pause returns after d, or with an error when ctx ends.
func Pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// End ends the process with a signal, and waits until it has ended.
func (s *Service) End(sig syscall.Signal) error {
	s.mu.Lock()
	s.ended = s.started
	s.mu.Unlock()
	return s.Process.End(sig)
}

// Crashes returns a description of each time that the process exited by itself.
func (s *Service) Crashes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.crashes...)
}

// Measure records the process's resident memory, on systems with /proc.
func (s *Service) Measure() {
	s.mu.Lock()
	defer s.mu.Unlock()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", s.Process.PID()))
	fields := strings.Fields(string(text))
	if err != nil || len(fields) < 2 {
		return
	}
	if pages, err := strconv.Atoi(fields[1]); err == nil {
		s.resident = pages * os.Getpagesize()
		s.peak = max(s.peak, s.resident)
	}
}

// Memory returns the process's resident memory now and at most, in bytes.
func (s *Service) Memory() (now, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.resident, s.peak
}

// Wait waits until no process will be restarted. End must have been called.
func (s *Service) Wait() { s.running.Wait() }

// MetricLines returns how many lines of the metrics contain a text.
func (s *Service) MetricLines(ctx context.Context, text string) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.Admin+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close() //nolint:errcheck // it has been read
	lines := 0
	scanner := bufio.NewScanner(response.Body)
	for scanner.Scan() {
		if strings.Contains(scanner.Text(), text) {
			lines++
		}
	}
	return lines, scanner.Err()
}
