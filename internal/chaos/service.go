package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// service is a process of `tidemark serve` on an address of its own. One that ends by itself is started again, as a
// supervisor does.
type service struct {
	name, program, dir, addr string
	args                     []string

	mu       sync.Mutex
	cmd      *exec.Cmd
	done     chan struct{} // closed when cmd has ended
	asked    bool          // cmd is to end
	crashes  []string      // how it ended by itself
	running  sync.WaitGroup
	resident int // memory, in bytes
	peak     int // of resident
}

const (
	serviceLimit = 20 * time.Second // to be ready, or to end
	restartPause = 500 * time.Millisecond
	lookEvery    = 50 * time.Millisecond
)

// startService returns a service that is ready.
func startService(ctx context.Context, s *service) error {
	address, err := freeAddress(ctx)
	if err != nil {
		return err
	}
	s.addr = address
	if err := s.start(); err != nil {
		return err
	}
	return s.awaitReady(ctx)
}

// Ports are below those that systems give to outgoing connections, so that a service can be started again at its port,
// and above those of package redistest.
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
func (s *service) start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = false
	return s.launch()
}

// launch starts the process. The caller holds mu.
func (s *service) launch() error {
	log, err := os.OpenFile(filepath.Join(s.dir, s.name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // the process has its own descriptor
	//nolint:gosec,noctx // our own binary, which is ended by signals
	cmd := exec.Command(s.program, append([]string{"serve", "--listen", s.addr}, s.args...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = attributes()
	if err := cmd.Start(); err != nil {
		return err
	}
	s.cmd, s.done = cmd, make(chan struct{})
	s.running.Go(func() { s.await(cmd, s.done) })
	return nil
}

// await waits until the process has ended, and starts another unless end was called.
func (s *service) await(cmd *exec.Cmd, done chan struct{}) {
	err := cmd.Wait()
	s.mu.Lock()
	if !s.asked {
		s.crashes = append(s.crashes, fmt.Sprintf("%s ended by itself: %v", s.name, err))
	}
	s.mu.Unlock()
	close(done)              // only now: who waits for it may start the service again
	time.Sleep(restartPause) //nolint:forbidigo // the pause of a supervisor
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.asked && s.cmd == cmd {
		_ = s.launch() // that it is missing shows in its answers
	}
}

// awaitReady returns when the service answers that it is ready.
func (s *service) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, serviceLimit)
	defer cancel()
	for {
		if status, err := s.get(ctx, "/readyz"); err == nil && status == http.StatusOK {
			return nil
		}
		if err := pause(ctx, lookEvery); err != nil {
			return fmt.Errorf("%s isn't ready: %w", s.name, err)
		}
	}
}

// get returns the status of an answer.
func (s *service) get(ctx context.Context, path string) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url()+path, nil)
	if err != nil {
		return 0, err
	}
	request.Close = true // each look is a connection of its own
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

// signal sends a signal to the process.
func (s *service) signal(sig syscall.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cmd.Process.Signal(sig)
}

// end ends the process with a signal, waits until it has ended, and kills it if that takes too long.
func (s *service) end(sig syscall.Signal) error {
	s.mu.Lock()
	s.asked = true
	cmd, done := s.cmd, s.done
	s.mu.Unlock()
	err := cmd.Process.Signal(sig)
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	err = errors.Join(err, cmd.Process.Signal(syscall.SIGCONT))
	select {
	case <-done:
		return nil
	case <-time.After(serviceLimit):
		err = errors.Join(err, fmt.Errorf("%s hasn't ended after %s", s.name, serviceLimit), cmd.Process.Kill())
		<-done
		return err
	}
}

// crashed returns how the process ended by itself.
func (s *service) crashed() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.crashes...)
}

// measure records the process's resident memory, where /proc has it.
func (s *service) measure() {
	s.mu.Lock()
	defer s.mu.Unlock()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", s.cmd.Process.Pid))
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
