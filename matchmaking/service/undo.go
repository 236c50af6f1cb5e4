package service

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/matchmaking/internal/pace"
)

// maxUndone is how many attempts can wait for being undone. More are given up: their tickets end with their life.
const maxUndone = 10_000

// undone is an attempt to make a ticket that failed, although the ticket may have been made.
type undone struct {
	queue   string
	id      string
	attempt string
	until   time.Time // when the ticket's life is over, and the attempt isn't on its way any more
}

// undo takes tickets out whose creation failed without it being known whether they were made, until the storage has
// said yes. A ticket that another attempt has found in the meantime, here or at another server, is left to that one.
// Its run owns the only goroutine; add may be called by many.
type undo struct {
	store   matchmaking.Creations
	log     *slog.Logger
	arrived chan struct{} // has one place: there is something in waiting

	mu      sync.Mutex
	waiting []undone // as they came
}

func newUndo(store matchmaking.Creations, log *slog.Logger) *undo {
	return &undo{store: store, log: log, arrived: make(chan struct{}, 1)}
}

// add has an attempt undone.
func (u *undo) add(ctx context.Context, t undone) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.waiting) >= maxUndone {
		u.log.ErrorContext(ctx, "a ticket may be left whose creation failed: too many are being undone", "queue", t.queue, "ticket", t.id)
		return
	}
	u.waiting = append(u.waiting, t)
	select {
	case u.arrived <- struct{}{}:
	default:
	}
}

// run undoes attempts until ctx ends, and then tries each that is left once more, for grace at most.
func (u *undo) run(ctx context.Context, grace time.Duration) {
	wait := pace.NewBackoff()
	for ctx.Err() == nil {
		select {
		case <-u.arrived:
		case <-ctx.Done():
			continue
		}
		for !u.pass(ctx) && pace.Sleep(ctx, wait.NextBackOff()) {
		}
		wait.Reset()
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	u.pass(last)
}

// maxUndoFailures ends a pass: the storage can't serve.
const maxUndoFailures = 8

// pass tries each attempt once, and gives whether none is left.
func (u *undo) pass(ctx context.Context) (finished bool) {
	list := u.take()
	var left []undone
	failures := 0
	for i, t := range list {
		if failures == maxUndoFailures || ctx.Err() != nil {
			left = append(left, list[i:]...)
			break
		}
		_, err := u.store.Undo(ctx, t.queue, t.id, t.attempt)
		if err != nil && time.Now().Before(t.until) {
			failures++
			left = append(left, t)
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.waiting = append(left, u.waiting...)
	return len(u.waiting) == 0
}

// take takes all attempts out.
func (u *undo) take() []undone {
	u.mu.Lock()
	defer u.mu.Unlock()
	list := u.waiting
	u.waiting = nil
	return list
}
