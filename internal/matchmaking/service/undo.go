package service

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/pace"
)

// maxUnknown limits the attempts waiting for undo. Further ones are dropped: their tickets expire.
const maxUnknown = 10_000

// createAttempt is an attempt to create a ticket with an unknown outcome.
type createAttempt struct {
	Queue   string
	ID      string // of the ticket
	Attempt string
	Until   time.Time // the end of the ticket's life, or of the attempt's possible delay
}

// undo removes the tickets of attempts until the storage has confirmed it. A ticket that another attempt has found
// meanwhile, on any server, belongs to that attempt and stays. Its Run owns the only goroutine; Add may be called by
// many.
type undo struct {
	store matchmaking.Creations
	log   *slog.Logger
	added chan struct{} // buffered (capacity 1): an attempt was added

	mu      sync.Mutex
	waiting []createAttempt // the oldest first
	dropped int             // dropped attempts since the last log message
}

// newUndo returns an undo without attempts.
func newUndo(store matchmaking.Creations, log *slog.Logger) *undo {
	return &undo{store: store, log: log, added: make(chan struct{}, 1)}
}

// Add schedules the undo of an attempt.
func (u *undo) Add(a createAttempt) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.waiting) >= maxUnknown {
		u.dropped++ // tryAll logs it, once for all
		return
	}
	u.waiting = append(u.waiting, a)
	pace.Signal(u.added)
}

// Run undoes attempts until ctx ends, and then tries each remaining one once more, for at most grace.
func (u *undo) Run(ctx context.Context, grace time.Duration) {
	wait := pace.NewBackoff()
	for ctx.Err() == nil {
		select {
		case <-u.added:
		case <-ctx.Done():
			continue
		}
		for !u.tryAll(ctx) && pace.Sleep(ctx, wait.NextBackOff()) {
		}
		wait.Reset()
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	u.tryAll(last)
}

// maxUndoFailures is the number of failures that end tryAll: the storage is unavailable.
const maxUndoFailures = 8

// tryAll tries each attempt once, and reports whether none is left.
func (u *undo) tryAll(ctx context.Context) (finished bool) {
	list := u.removeAll()
	var remaining []createAttempt
	failures := 0
	for i, a := range list {
		if failures == maxUndoFailures || ctx.Err() != nil {
			remaining = append(remaining, list[i:]...)
			break
		}
		_, err := u.store.Undo(ctx, a.Queue, a.ID, a.Attempt)
		if err != nil && time.Now().Before(a.Until) {
			failures++
			remaining = append(remaining, a)
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.waiting = append(remaining, u.waiting...)
	if u.dropped > 0 {
		u.log.ErrorContext(ctx, "too many failed creations to undo, tickets may remain until they expire", "tickets",
			u.dropped)
		u.dropped = 0
	}
	return len(u.waiting) == 0
}

// removeAll removes and returns all attempts.
func (u *undo) removeAll() []createAttempt {
	u.mu.Lock()
	defer u.mu.Unlock()
	list := u.waiting
	u.waiting = nil
	return list
}

// Waiting returns the number of waiting attempts.
func (u *undo) Waiting() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.waiting)
}
