package config

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sync/semaphore"
)

// readFunc reads a file.
type readFunc func(path string) ([]byte, error)

// readAny reads a file, or a pipe to its end.
func readAny(path string) ([]byte, error) {
	f, err := os.Open(path) //nolint:gosec // the operator names it
	if err != nil {
		return nil, err
	}
	return readOpen(f)
}

// readRegular reads a regular file.
func readRegular(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) //nolint:gosec // the operator names it
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, f.Close(), fmt.Errorf(
			"%s isn't a regular file: a pipe can be read at the start only; start the service with a file to reload it",
			path))
	}
	return readOpen(f)
}

func readOpen(f *os.File) ([]byte, error) {
	defer f.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		return nil, fmt.Errorf("%s has more than %d bytes", f.Name(), maxFile)
	}
	return text, err
}

// maxReads is how many calls of Within read at a time, including those that nothing waits for any more.
const maxReads = 8

var reads = semaphore.NewWeighted(maxReads)

// ErrSlow is the error of Within if reading takes too long.
var ErrSlow = errors.New("the configuration, or a file that it names, can't be read in time")

// Within calls load, which returns a configuration or what is made of one, and waits for it for a limited time, or
// until ctx ends: a read of a pipe that nobody writes to, or of a file system that hangs, doesn't end. Errors: those of
// load and ctx, and ErrSlow.
func Within[T any](ctx context.Context, limit time.Duration, load func() (T, error)) (loaded T, err error) {
	if !reads.TryAcquire(1) {
		return loaded, fmt.Errorf("%w: %d earlier reads have not ended", ErrSlow, maxReads)
	}
	type result struct {
		c   T
		err error
	}
	done := make(chan result, 1)
	go func() {
		c, err := load()
		reads.Release(1) // before the caller can begin another read
		done <- result{c, err}
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case r := <-done:
		return r.c, r.err
	case <-timer.C:
		return loaded, fmt.Errorf("%w (%s): is it on a file system that hangs, or a pipe without a writer?", ErrSlow,
			limit)
	case <-ctx.Done():
		return loaded, ctx.Err()
	}
}
