package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
)

// host is a testing.TB outside of tests, for package redistest. It collects failures and runs cleanups. The embedded
// interface is nil. Fatalf ends the calling goroutine, which must be that of run.
type host struct {
	testing.TB

	name string
	ctx  context.Context //nolint:containedctx // testing.TB has one

	mu       sync.Mutex
	failures []string
	cleanups []func()
}

// run calls do in a new goroutine, and then the functions registered with Cleanup, the last one first.
func (h *host) run(do func()) {
	var running sync.WaitGroup
	running.Go(do) // it may end by runtime.Goexit
	running.Wait()
	for {
		h.mu.Lock()
		n := len(h.cleanups)
		if n == 0 {
			h.mu.Unlock()
			return
		}
		last := h.cleanups[n-1]
		h.cleanups = h.cleanups[:n-1]
		h.mu.Unlock()
		var cleaning sync.WaitGroup
		cleaning.Go(last)
		cleaning.Wait()
	}
}

func (h *host) Helper() {}

func (h *host) Name() string { return h.name }

func (h *host) Context() context.Context { return h.ctx }

func (h *host) Logf(string, ...any) {} // servers log to files

func (h *host) Errorf(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failures = append(h.failures, fmt.Sprintf(format, args...))
}

func (h *host) Fatalf(format string, args ...any) {
	h.Errorf(format, args...)
	runtime.Goexit()
}

func (h *host) Failed() bool { return len(h.failed()) > 0 }

func (h *host) failed() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.failures)
}

func (h *host) Cleanup(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cleanups = append(h.cleanups, f)
}
