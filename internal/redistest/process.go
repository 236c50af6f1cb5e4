package redistest

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
)

// errEnded means that a server's process isn't there.
var errEnded = errors.New("the server has ended")

// process is a server program in the guard's process group, which can be started again after it ended.
type process struct {
	program string
	args    []string
	dir     string
	shared  bool

	mu     sync.Mutex
	cmd    *exec.Cmd     // the present or the last one
	exited chan struct{} // closed when cmd is gone
}

func (p *process) logPath() string { return filepath.Join(p.dir, "server.log") }

// log returns what the server printed since it was first started.
func (p *process) log() string {
	b, err := os.ReadFile(p.logPath())
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// start runs the program and returns a channel that is closed when it is gone.
func (p *process) start(ctx context.Context) (<-chan struct{}, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running() {
		return nil, errors.New("the server is running already")
	}
	group, _, err := processes.join(ctx)
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(p.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the server's log: %w", err)
	}
	defer func() { _ = log.Close() }() // the server has its own descriptor
	// The process belongs to the test binary, not to the call that started it.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), p.program, p.args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.dir, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: group}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", p.program, err)
	}
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		_ = cmd.Wait() // how it ended is in its log
	}()
	p.cmd, p.exited = cmd, exited
	return exited, nil
}

// running says whether the process is there. The caller holds mu.
func (p *process) running() bool {
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

// alive says whether the process is there, be it paused.
func (p *process) alive() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running()
}

func (p *process) pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// signal fails with errEnded where the process is gone.
func (p *process) signal(sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running() {
		return errEnded
	}
	err := p.cmd.Process.Signal(sig)
	if errors.Is(err, os.ErrProcessDone) {
		return errEnded
	}
	return err
}

// end sends sig and waits until the process is gone. A paused process is woken to take it.
func (p *process) end(sig syscall.Signal) error {
	err := p.signal(sig)
	if err == nil {
		err = p.signal(syscall.SIGCONT)
	}
	if err != nil && !errors.Is(err, errEnded) {
		return err
	}
	p.mu.Lock()
	exited := p.exited
	p.mu.Unlock()
	if exited != nil {
		<-exited
	}
	return nil
}
