package managed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
)

const (
	pidName     = "redis.pid"
	lockRecheck = 20 * time.Millisecond
)

// lockPidFile returns the pid file, locked, for the next child to inherit. The
// lock is held as long as the child or a process forked by it lives, whatever
// happens to the service. So if the lock is taken, a child of an earlier service
// is still running; lockPidFile ends it first.
func (s *Server) lockPidFile(ctx context.Context) (*os.File, error) {
	path := filepath.Join(s.dataDir, pidName)
	held, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600) //nolint:gosec // under the operator's data directory
	if err != nil {
		return nil, fmt.Errorf("open the pid file: %w", s.withOwner(err))
	}
	err = tryLock(held)
	if isLocked(err) {
		err = s.endEarlierChild(ctx, held)
	}
	if err == nil {
		err = held.Truncate(0)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), held.Close())
	}
	return held, nil
}

// handOver writes the pid of the child that has inherited the lock, and releases
// the service's own hold on it.
func (s *Server) handOver(held *os.File, pid int) {
	_, err := held.WriteAt([]byte(strconv.Itoa(pid)+"\n"), 0)
	if err := errors.Join(err, held.Close()); err != nil {
		s.log.Warn("the pid of the managed redis could not be noted", "pid", pid, "error", err)
	}
}

// endEarlierChild asks the child that holds the lock to shut down, and kills it
// if it doesn't. It returns with the lock taken, or an error.
func (s *Server) endEarlierChild(ctx context.Context, held *os.File) error {
	pid := readPID(held)
	s.log.Warn("a redis that an earlier service left behind is still running; it is shut down", "pid", pid)
	asked, cancel := context.WithTimeout(ctx, s.stopTimeout)
	defer cancel()
	if err := shutdown(asked, s.socket.path); err != nil {
		s.log.Debug("the redis of an earlier service did not answer", "error", err) // usually because it is ending
	}
	err := awaitLock(asked, held)
	if err == nil || ctx.Err() != nil || pid == 0 {
		return err
	}
	s.log.Warn("the redis of an earlier service doesn't end: killing it", "pid", pid)
	if err := killGroup(pid); err != nil {
		return fmt.Errorf("kill the redis of an earlier service, process %d: %w", pid, err)
	}
	killed, cancelKilled := context.WithTimeout(ctx, s.stopTimeout)
	defer cancelKilled()
	return awaitLock(killed, held)
}

func awaitLock(ctx context.Context, held *os.File) error {
	_, err := backoff.Retry(ctx, func() (struct{}, error) { return struct{}{}, tryLock(held) },
		backoff.WithBackOff(backoff.NewConstantBackOff(lockRecheck)), backoff.WithMaxElapsedTime(0))
	if err != nil {
		return fmt.Errorf("wait for the redis of an earlier service to end: %w", err)
	}
	return nil
}

// readPID returns the pid in the file, or 0 if there is none. It never returns 1
// or a negative number, which kill would apply to other processes.
func readPID(f *os.File) int {
	text := make([]byte, 20)
	n, _ := f.ReadAt(text, 0) // always ends with io.EOF
	pid, err := strconv.Atoi(strings.TrimSpace(string(text[:n])))
	if err != nil || pid <= 1 {
		return 0
	}
	return pid
}
