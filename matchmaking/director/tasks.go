package director

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// tasks are the goroutines that a director has beside its term's: matches that are being made, and what is given up of
// them. They outlive a term.
type tasks struct {
	ctx    context.Context    //nolint:containedctx // of all tasks, which no caller waits for
	GiveUp context.CancelFunc // ends the context of all tasks

	running sync.WaitGroup
	count   atomic.Int32
}

// newTasks returns tasks whose context has the values of ctx, and ends only when they are given up.
func newTasks(ctx context.Context) *tasks {
	t := &tasks{}
	// the owner of the tasks calls GiveUp
	t.ctx, t.GiveUp = context.WithCancel(context.WithoutCancel(ctx))
	return t
}

// Start runs f in a goroutine of its own.
func (t *tasks) Start(f func(context.Context)) {
	t.count.Add(1)
	t.running.Go(func() {
		defer t.count.Add(-1)
		f(t.ctx)
	})
}

// None reports whether no task runs.
func (t *tasks) None() bool { return t.count.Load() == 0 }

// Finish waits until no task runs. It gives them up after a while.
func (t *tasks) Finish(patience time.Duration) {
	timer := time.AfterFunc(patience, t.GiveUp)
	defer timer.Stop()
	t.running.Wait()
}
