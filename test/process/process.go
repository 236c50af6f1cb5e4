// Package process runs programs for tests. A program that it started never outlives the process that started it, even
// if that process is killed: see the guard in guard.go.
//
// Functions and methods may be called by several goroutines at the same time.
package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Process is a program, which can be started again after it has ended.
type Process struct {
	Program string
	Args    []string
	Env     []string // nil: that of this process
	Dir     string   // its working directory; Log is in it
	LogName string   // of the file in Dir that receives what the program prints; "": it goes to standard error

	mu     sync.Mutex
	cmd    *exec.Cmd     // the current or the last one
	exited chan struct{} // closed when cmd has ended
}

// ErrEnded means that the process has ended.
var ErrEnded = errors.New("the process has ended")

// endLimit is how long a process may take to end.
const endLimit = 20 * time.Second

// Start starts the program. The process is independent of ctx.
func (p *Process) Start(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.alive() {
		return errors.New("the process is running already")
	}
	group, err := guarded.join(ctx)
	if err != nil {
		return err
	}
	log := os.Stderr
	if p.LogName != "" {
		if log, err = os.OpenFile(p.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
			return fmt.Errorf("open the log: %w", err)
		}
		defer func() { _ = log.Close() }() // the process has its own descriptor
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), p.Program, p.Args...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = p.Env, p.Dir, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: group}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.Program, err)
	}
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		_ = cmd.Wait() // the log says how it ended
	}()
	p.cmd, p.exited = cmd, exited
	return nil
}

// Exited returns a channel that is closed when the process, which must have been started, has ended.
func (p *Process) Exited() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.exited
}

// Alive reports whether the process exists, even if it is stopped.
func (p *Process) Alive() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.alive()
}

// alive is Alive. The caller holds mu.
func (p *Process) alive() bool {
	if p.cmd == nil {
		return false
	}
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// PID returns the process ID, also after the end, or 0 if the process was never started.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// ExitCode returns the exit status of the process, which must have ended: -1 if a signal ended it.
func (p *Process) ExitCode() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd.ProcessState.ExitCode()
}

// Signal sends a signal. It fails with ErrEnded if the process has ended.
func (p *Process) Signal(sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.alive() {
		return ErrEnded
	}
	err := p.cmd.Process.Signal(sig)
	if errors.Is(err, os.ErrProcessDone) {
		return ErrEnded
	}
	return err
}

// End sends sig, wakes the process if it is stopped, and waits until it has ended. A process that takes longer than
// 20 s is killed, and End fails. It does nothing if the process has ended.
func (p *Process) End(sig syscall.Signal) error {
	err := p.Signal(sig)
	if err == nil {
		err = p.Signal(syscall.SIGCONT)
	}
	if errors.Is(err, ErrEnded) {
		err = nil
	}
	exited := p.Exited()
	if err != nil || exited == nil {
		return err
	}
	select {
	case <-exited:
		return nil
	case <-time.After(endLimit):
		err := fmt.Errorf("%s has not ended %s after %v", p.Program, endLimit, sig)
		err = errors.Join(err, p.Signal(syscall.SIGKILL))
		<-exited
		return err
	}
}

func (p *Process) logPath() string { return filepath.Join(p.Dir, p.LogName) }

// Log returns what the program has printed since it was first started, if it has a log.
func (p *Process) Log() string {
	if p.LogName == "" {
		return ""
	}
	b, err := os.ReadFile(p.logPath())
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// LastLines returns the last n lines of a log.
func LastLines(log string, n int) string {
	lines := strings.Split(strings.TrimSpace(log), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
