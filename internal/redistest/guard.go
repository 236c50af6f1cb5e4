package redistest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
)

// guardEnv, where it is set, makes a process that imports this package a guard of the directory it names.
const guardEnv = "TIDEMARK_REDISTEST_GUARD"

func init() {
	if dir := os.Getenv(guardEnv); dir != "" {
		runGuard(dir)
	}
}

// runGuard waits until the other end of standard input is closed, which the kernel does when the test binary
// ends in whatever way. It then removes dir and kills its process group: itself and all servers.
func runGuard(dir string) {
	if syscall.Getpgrp() != os.Getpid() {
		fmt.Fprintln(os.Stderr, "redistest: a guard must lead its process group")
		os.Exit(2)
	}
	// An interrupt is for the test binary; the guard follows it. A group that loses its parent gets SIGHUP.
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM)
	_, _ = io.WriteString(os.Stdout, "ready\n")
	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = os.RemoveAll(dir)
	_ = syscall.Kill(0, syscall.SIGKILL)
	os.Exit(1) // a guard must never go on to run tests
}

// guard is a second process of the test binary whose process group all servers join. It holds the reading
// end of a pipe, so that it sees the end of the test binary even where that had no chance to clean up.
type guard struct {
	mu   sync.Mutex
	cmd  *exec.Cmd
	pipe io.Closer
	dir  string
}

// processes is the guard of this test binary.
var processes guard

// join returns the process group for a new server and the directory under which it may keep files.
func (g *guard) join(ctx context.Context) (pgid int, dir string, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.cmd == nil {
		if err := g.start(ctx); err != nil {
			return 0, "", fmt.Errorf("start the guard process: %w", err)
		}
	}
	return g.cmd.Process.Pid, g.dir, nil
}

func (g *guard) start(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "tidemark-redistest-")
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), self)
	cmd.Env = append(os.Environ(), guardEnv+"="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return errors.Join(err, os.Remove(dir))
	}
	if err := awaitReady(out); err != nil {
		return errors.Join(err, pipe.Close(), cmd.Wait(), os.Remove(dir))
	}
	g.cmd, g.pipe, g.dir = cmd, pipe, dir
	return nil
}

// awaitReady reads until the guard said that it is ready: it ignores signals from then on. Packages that are
// initialised earlier may print other lines first.
func awaitReady(out io.Reader) error {
	var said strings.Builder
	buf := make([]byte, 256)
	for !strings.Contains(said.String(), "ready\n") {
		n, err := out.Read(buf)
		said.Write(buf[:n])
		if err != nil {
			return fmt.Errorf("guard ended early, printing %q: %w", said.String(), err)
		}
	}
	return nil
}

// stop ends all servers and removes their files. It returns when the guard is gone.
func (g *guard) stop() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.cmd == nil {
		return nil
	}
	err := g.pipe.Close()
	_ = g.cmd.Wait() // it kills itself, so this always reports a signal
	g.cmd = nil
	return err
}
