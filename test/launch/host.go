package launch

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
)

// Host is a testing.TB outside of tests, for package redistest. It collects failures and runs cleanups. The embedded
// interface is nil. Fatalf ends the calling goroutine, which must be that of Run.
type Host struct {
	testing.TB

	name string
	ctx  context.Context //nolint:containedctx // testing.TB has one

	mu       sync.Mutex
	failures []string
	cleanups []func()
}

// NewHost returns a host without failures.
func NewHost(ctx context.Context, name string) *Host { return &Host{name: name, ctx: ctx} }

// Run calls do in a new goroutine, and then the functions registered with Cleanup, the last one first.
func (h *Host) Run(do func()) {
	wait := func(do func()) {
		var running sync.WaitGroup
		running.Go(do) // it may end by runtime.Goexit
		running.Wait()
	}
	for wait(do); ; {
		h.mu.Lock()
		n := len(h.cleanups)
		if n == 0 {
			h.mu.Unlock()
			return
		}
		last := h.cleanups[n-1]
		h.cleanups = h.cleanups[:n-1]
		h.mu.Unlock()
		wait(last)
	}
}

// Must ends the run as Fatalf does if err is not nil.
func (h *Host) Must(err error) {
	if err != nil {
		h.Fatalf("%v", err)
	}
}

// Failures returns the messages of Errorf and Fatalf.
func (h *Host) Failures() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.failures)
}

// Helper implements testing.TB.
func (h *Host) Helper() {}

// Name implements testing.TB.
func (h *Host) Name() string { return h.name }

// Context implements testing.TB. It outlasts the cleanups.
func (h *Host) Context() context.Context { return h.ctx }

// Logf implements testing.TB. It does nothing: servers log to files.
func (h *Host) Logf(string, ...any) {}

// Errorf implements testing.TB.
func (h *Host) Errorf(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failures = append(h.failures, fmt.Sprintf(format, args...))
}

// Fatalf implements testing.TB.
func (h *Host) Fatalf(format string, args ...any) {
	h.Errorf(format, args...)
	runtime.Goexit()
}

// Failed implements testing.TB.
func (h *Host) Failed() bool { return len(h.Failures()) > 0 }

// Cleanup implements testing.TB.
func (h *Host) Cleanup(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cleanups = append(h.cleanups, f)
}
