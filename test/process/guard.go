package process

import (
	"bufio"
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

// guardEnv makes a process that imports this package the guard of the directory that the variable names.
const guardEnv = "TIDEMARK_PROCESS_GUARD"

func init() {
	if dir := os.Getenv(guardEnv); dir != "" {
		runGuard(dir)
	}
}

// runGuard waits until the other end of standard input is closed, which the kernel does when the starting process ends,
// in any way. It then removes dir and kills its process group: itself and all children of package process.
func runGuard(dir string) {
	if syscall.Getpgrp() != os.Getpid() {
		fmt.Fprintln(os.Stderr, "process: a guard must lead its process group")
		os.Exit(2)
	}
	// An interrupt is for the starting process; the guard follows it. A group that loses its parent receives SIGHUP.
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM)
	_, _ = io.WriteString(os.Stdout, guardReady)
	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = os.RemoveAll(dir)
	_ = syscall.Kill(0, syscall.SIGKILL)
	os.Exit(1) // a guard must never run tests
}

// guardReady is the line that a guard prints when it ignores signals.
const guardReady = "ready\n"

// guard is a second process of this program, whose process group all children join. It holds the reading end of a pipe,
// and so notices the end of this process even if that is killed.
type guard struct {
	mu   sync.Mutex
	cmd  *exec.Cmd
	pipe io.Closer
	dir  string
}

// guarded is the guard of this process.
var guarded guard

// TempDir makes a directory that is removed when this process ends or Stop is called.
func TempDir(ctx context.Context, pattern string) (string, error) {
	if _, err := guarded.join(ctx); err != nil {
		return "", err
	}
	return os.MkdirTemp(guarded.dir, pattern)
}

// Stop kills all children and removes the directories of TempDir. A later Start works again.
func Stop() error { return guarded.stop() }

// join returns the process group for a new child.
func (g *guard) join(ctx context.Context) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.cmd == nil {
		if err := g.start(ctx); err != nil {
			return 0, fmt.Errorf("start the guard process: %w", err)
		}
	}
	return g.cmd.Process.Pid, nil
}

func (g *guard) start(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "tidemark-process-")
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

// awaitReady reads until the guard is ready. Packages that are initialized earlier may print other lines first.
func awaitReady(out io.Reader) error {
	for lines := bufio.NewReader(out); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			return fmt.Errorf("the guard has ended, printing %q: %w", line, err)
		}
		if strings.HasSuffix(line, guardReady) {
			return nil
		}
	}
}

func (g *guard) stop() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.cmd == nil {
		return nil
	}
	err := g.pipe.Close()
	_ = g.cmd.Wait() // it kills itself, and so this always reports a signal
	g.cmd = nil
	return err
}
