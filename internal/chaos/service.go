package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tidemark-dev/tidemark/internal/process"
)

// service is a process of `tidemark serve`. If it exits by itself, it is restarted, as by a supervisor.
type service struct {
	name, addr string
	process    *process.Process

	mu       sync.Mutex
	started  int      // how often it was started
	ended    int      // the last of these starts that end has ended
	crashes  []string // last lines of the log when it exited by itself
	running  sync.WaitGroup
	resident int // memory, in bytes
	peak     int // of resident
}

const (
	readyLimit   = 20 * time.Second
	restartPause = 500 * time.Millisecond
	lookEvery    = 50 * time.Millisecond
)

// newService returns a service that is not started yet. args are its flags besides --listen. Its log is in dir.
func newService(ctx context.Context, program, dir string, name string, args []string) (*service, error) {
	address, err := freeAddress(ctx)
	return &service{name: name, addr: address, process: &process.Process{
		Program: program, Args: append([]string{"serve", "--listen", address}, args...),
		Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}, Dir: dir, LogName: name + ".log",
	}}, err
}

// Ports are below those of outgoing connections, so that a service can be restarted on its port, and above those of package
// redistest.
const (
	firstPort = 30000
	portCount = 2500
)

// freeAddress returns an address that is free.
func freeAddress(ctx context.Context) (string, error) {
	var config net.ListenConfig
	var last error
	for range 100 {
		address := fmt.Sprintf("127.0.0.1:%d", firstPort+rand.IntN(portCount)) //nolint:gosec // no secret
		l, err := config.Listen(ctx, "tcp", address)
		if err == nil {
			return address, l.Close()
		}
		last = err
	}
	return "", last
}

func (s *service) url() string { return "http://" + s.addr }

// start starts the process, without waiting for it to be ready.
func (s *service) start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.process.Start(ctx); err != nil {
		return err
	}
	s.started++
	exited, start := s.process.Exited(), s.started
	s.running.Go(func() { s.supervise(ctx, exited, start) })
	return nil
}

// supervise waits until the process of one start has ended, and restarts it unless end was called.
func (s *service) supervise(ctx context.Context, exited <-chan struct{}, start int) {
	<-exited
	s.mu.Lock()
	asked := s.ended >= start
	if !asked {
		s.crashes = append(s.crashes, s.name+" exited: "+process.LastLines(s.process.Log(), 1))
	}
	s.mu.Unlock()
	if !asked && pause(ctx, restartPause) == nil {
		_ = s.start(ctx) // fails if the scenario has started it; otherwise requests will fail
	}
}

// awaitReady waits until the service reports that it is ready.
func (s *service) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	for {
		if status, err := s.get(ctx, "/readyz"); err == nil && status == http.StatusOK {
			return nil
		}
		if err := pause(ctx, lookEvery); err != nil {
			return fmt.Errorf("%s is not ready: %w", s.name, err)
		}
	}
}

// get returns the status of a response.
func (s *service) get(ctx context.Context, path string) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url()+path, nil)
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

// pause returns after d, or with an error when ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// end ends the process with a signal, and waits until it has ended.
func (s *service) end(sig syscall.Signal) error {
	s.mu.Lock()
	s.ended = s.started
	s.mu.Unlock()
	return s.process.End(sig)
}

// crashed returns a description of each time that the process exited by itself.
func (s *service) crashed() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.crashes...)
}

// measure records the process's resident memory, on systems with /proc.
func (s *service) measure() {
	s.mu.Lock()
	defer s.mu.Unlock()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", s.process.PID()))
	fields := strings.Fields(string(text))
	if err != nil || len(fields) < 2 {
		return
	}
	if pages, err := strconv.Atoi(fields[1]); err == nil {
		s.resident = pages * os.Getpagesize()
		s.peak = max(s.peak, s.resident)
	}
}

// memory returns the process's resident memory now and at most, in bytes.
func (s *service) memory() (now, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.resident, s.peak
}
