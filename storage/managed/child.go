package managed

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
)

// runChild starts one child and waits for its end. When ctx ends, it asks the
// child to end, and kills it after the stop timeout. It returns nil if the child
// was asked to end and exited with 0, and otherwise an error with its exit and its last output. If no signal ended it,
// the error begins with the last warning that it printed. Errors: ErrNoManifest.
func (s *Server) runChild(ctx context.Context) error {
	held, err := s.lockPidFile(ctx)
	if err != nil {
		return err
	}
	defer held.Close() //nolint:errcheck // closed once already; the lock is the child's now
	if err := s.checkData(); err != nil {
		return err
	}
	out, in, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make a pipe for the log of %s: %w", s.binary, err)
	}
	defer out.Close() //nolint:errcheck // only read from

	running, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := s.command(running)
	cmd.Stdout, cmd.Stderr = in, in
	cmd.ExtraFiles = []*os.File{held}
	err = startPrivate(cmd)
	_ = in.Close() // the child has its own
	if err != nil {
		return fmt.Errorf("start %s: %w", s.binary, err)
	}
	s.handOver(held, cmd.Process.Pid)

	printed := childLog{log: s.log.With("pid", cmd.Process.Pid)}
	var watchers sync.WaitGroup
	watchers.Go(func() { printed.forward(ctx, out) })
	watchers.Go(func() { s.awaitAnswer(running) })
	_ = cmd.Wait() // the process's state has more detail
	cancel()
	_ = killGroup(cmd.Process.Pid) // a forked process, if any, would keep the pipe open
	watchers.Wait()

	if ctx.Err() != nil && cmd.ProcessState.Success() {
		return nil
	}
	err = fmt.Errorf("%s ended with %s; it printed last:\n\t%s", s.binary, cmd.ProcessState,
		strings.Join(printed.tail, "\n\t"))
	if printed.warning != "" && cmd.ProcessState.Exited() { // a signal has another reason
		err = fmt.Errorf("%s: %w", printed.warning, err)
	}
	return err
}

// command returns the command of the child. It is asked to end when ctx ends.
func (s *Server) command(ctx context.Context) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.binary, "-") //nolint:gosec // which binary runs is the operator's choice
	cmd.Stdin = strings.NewReader(s.config())
	cmd.SysProcAttr = s.attributes
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = s.stopTimeout
	return cmd
}

// umask guards the file mode creation mask, which the whole process shares.
var umask sync.Mutex

// startPrivate starts cmd so that only this user can read the files that it creates.
func startPrivate(cmd *exec.Cmd) error {
	umask.Lock()
	defer umask.Unlock()
	defer makePrivate()()
	return cmd.Start()
}

// awaitAnswer pings the child until it answers, and then makes Ready return, or
// until ctx ends.
func (s *Server) awaitAnswer(ctx context.Context) {
	if err := awaitPing(ctx, s.socket.path); err != nil {
		return // the child has ended: runChild returns how
	}
	s.log.Info("the managed redis answers", "socket", s.socket.path)
	s.readyOnce.Do(func() { close(s.ready) })
}
