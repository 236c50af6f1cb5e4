package matchmaking

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// maxUndone is how many tickets can wait for being undone. More are given up: they end with their life.
const maxUndone = 10_000

// undone is a ticket that may have been made although its creation failed.
type undone struct {
	queue string
	id    string
	keep  time.Duration
	until time.Time // when its life is over, at the latest
}

// undo cancels tickets whose creation failed without it being known whether they were made, until the storage has
// said yes. Its run owns the only goroutine; the other methods may be called by many.
type undo struct {
	store   Tickets
	log     *slog.Logger
	arrived chan struct{} // has one place: there is something in waiting

	mu      sync.Mutex
	waiting map[string]undone        // by the ticket's ID
	order   []string                 // their IDs, as they came; some may be gone from waiting
	busy    map[string]chan struct{} // the one that is being cancelled; closed when that has ended
}

func newUndo(store Tickets, log *slog.Logger) *undo {
	return &undo{
		store: store, log: log, arrived: make(chan struct{}, 1),
		waiting: map[string]undone{}, busy: map[string]chan struct{}{},
	}
}

// add has a ticket undone.
func (u *undo) add(ctx context.Context, t undone) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.waiting) >= maxUndone {
		u.log.ErrorContext(ctx, "a ticket may be left whose creation failed: too many are being undone", "queue", t.queue, "ticket", t.id)
		return
	}
	u.waiting[t.id] = t
	u.order = append(u.order, t.id)
	select {
	case u.arrived <- struct{}{}:
	default:
	}
}

// forget has a ticket not undone any more, since its creation is tried again. When it returns nil nothing of this
// server will cancel it.
func (u *undo) forget(ctx context.Context, id string) error {
	u.mu.Lock()
	delete(u.waiting, id)
	busy := u.busy[id]
	u.mu.Unlock()
	if busy == nil {
		return nil
	}
	select {
	case <-busy:
		return u.forget(ctx, id) // it is waiting again where the cancelling failed
	case <-ctx.Done():
		return fmt.Errorf("create ticket %s: %w", id, ctx.Err())
	}
}

// run undoes tickets until ctx ends, and then tries each that is left once more, for grace at most.
func (u *undo) run(ctx context.Context, grace time.Duration) {
	var wait backoff
	for ctx.Err() == nil {
		select {
		case <-u.arrived:
		case <-ctx.Done():
			continue
		}
		for !u.pass(ctx) && pause(ctx, wait.next()) {
		}
		wait.reset()
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	u.pass(last)
}

// maxUndoFailures ends a pass: the storage can't serve.
const maxUndoFailures = 8

// pass tries each ticket once, and gives whether none is left.
func (u *undo) pass(ctx context.Context) (finished bool) {
	failures := 0
	for tries := u.count(); tries > 0 && failures < maxUndoFailures && ctx.Err() == nil; tries-- {
		if t, ok := u.take(); ok && !u.try(ctx, t) {
			failures++
		}
	}
	return u.count() == 0
}

// count gives how many tries a pass has.
func (u *undo) count() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.order)
}

// take takes the ticket out that has waited longest.
func (u *undo) take() (undone, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.order) == 0 {
		return undone{}, false
	}
	id := u.order[0]
	u.order = u.order[1:]
	t, ok := u.waiting[id]
	if ok {
		delete(u.waiting, id)
		u.busy[id] = make(chan struct{})
	}
	return t, ok
}

// try cancels a ticket that was taken. It gives false where it has to be tried again.
func (u *undo) try(ctx context.Context, t undone) bool {
	err := u.store.Cancel(ctx, CancelRequest{Queue: t.queue, ID: t.id, Keep: t.keep})
	again := err != nil && !errors.Is(err, ErrTicketMatched) && time.Now().Before(t.until)
	u.mu.Lock()
	defer u.mu.Unlock()
	if again {
		u.waiting[t.id] = t
		u.order = append(u.order, t.id)
	}
	close(u.busy[t.id])
	delete(u.busy, t.id)
	return !again
}
