package backend

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/internal/outage"
	"github.com/tidemark-dev/tidemark/internal/pace"
)

// loop runs the cycles of one queue, one after the other, for the calls of this server.
type loop struct {
	synchronizer *Synchronizer
	name         string        // of the queue
	arrived      chan struct{} // buffered (capacity 1): a call waits for a cycle

	evaluatorFailing, handOutFailing, releaseFailing *outage.Outage

	mu              sync.Mutex
	calls           []*call // that wait for a cycle
	open            int     // calls that have entered and whose callers haven't got all yet
	closed          bool
	functions       map[Function]*outage.Outage
	evaluator       Evaluator
	evaluatorConfig matchmaking.Caller // the definition of evaluator
}

func newLoop(s *Synchronizer, queue string) *loop {
	log := s.options.Logger.With(slog.String("queue", queue))
	return &loop{
		synchronizer: s, name: queue, arrived: make(chan struct{}, 1),
		evaluatorFailing: outage.New(log, "evaluator failing"),
		handOutFailing:   outage.New(log, "cannot hand out tickets"),
		releaseFailing:   outage.New(log, "cannot release tickets of matches that were not read"),
		functions:        map[Function]*outage.Outage{},
	}
}

// enter counts a call, unless the loop has ended. exit must be called when the call's caller has got all.
func (l *loop) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.open++
	}
	return !l.closed
}

// add makes a call that has entered wait for a cycle.
func (l *loop) add(c *call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		c.end(errEnded)
		return
	}
	l.calls = append(l.calls, c)
	pace.Signal(l.arrived)
}

// exit is the end of what enter has counted.
func (l *loop) exit() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	pace.Signal(l.arrived)
}

// serve serves a call that has entered, and passes its matches to each.
func (l *loop) serve(c *call, each func(Match) error) error {
	defer l.exit()
	defer c.close()
	l.add(c)
	for {
		taken, err := c.awaitMatches(c.ctx)
		if len(taken) == 0 {
			l.release(c.ctx, c.abandon(err))
			return err
		}
		for i, m := range taken {
			if err := m.passTo(each); err != nil {
				l.release(c.ctx, append(taken[i:], c.abandon(err)...))
				return err
			}
			c.passed(m)
		}
	}
}

// takeCalls returns the calls that wait for a cycle.
func (l *loop) takeCalls() []*call {
	l.mu.Lock()
	defer l.mu.Unlock()
	calls := l.calls
	l.calls = nil
	return calls
}

// close ends the loop if it has no calls, or in any case if always is set, and returns the calls that still wait.
func (l *loop) close(always bool) (rest []*call, closed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == 0 || always {
		l.closed = true
	}
	if l.closed {
		rest, l.calls = l.calls, nil
	}
	return rest, l.closed
}

// end closes the loop, and fails the calls that still wait.
func (l *loop) end() {
	rest, _ := l.close(true)
	for _, c := range rest {
		c.end(errEnded)
	}
}

// run runs cycles until ctx ends, or there has been no call for a while.
func (l *loop) run(ctx context.Context) {
	defer func() {
		l.end()
		if l.evaluator != nil {
			l.evaluator.Close()
		}
	}()
	idle := time.NewTimer(l.synchronizer.options.Limits.Idle)
	defer idle.Stop()
	for ctx.Err() == nil {
		if calls := l.takeCalls(); len(calls) > 0 {
			l.cycle(ctx, calls)
			idle.Reset(l.synchronizer.options.Limits.Idle)
			continue
		}
		select {
		case <-l.arrived:
			idle.Reset(l.synchronizer.options.Limits.Idle)
		case <-idle.C:
			if _, closed := l.close(false); closed {
				return
			}
			idle.Reset(l.synchronizer.options.Limits.Idle)
		case <-ctx.Done():
		}
	}
}

// cycle runs one cycle.
func (l *loop) cycle(ctx context.Context, calls []*call) {
	queue, err := l.synchronizer.options.Queue(ctx, l.name)
	if err != nil {
		for _, c := range calls {
			c.end(err)
		}
		return
	}
	newCycle(l, queue).run(ctx, calls)
}

// evaluatorOf returns the evaluator of a queue, which is built once for a definition. No other one is in use.
func (l *loop) evaluatorOf(queue matchmaking.Definition) (Evaluator, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.evaluator != nil && l.evaluatorConfig == queue.Evaluator {
		return l.evaluator, nil
	}
	built, err := l.synchronizer.options.Evaluator(queue)
	if err != nil {
		return nil, err
	}
	if l.evaluator != nil {
		l.evaluator.Close()
	}
	l.evaluator, l.evaluatorConfig = built, queue.Evaluator
	return built, nil
}

// maxOutages limits the functions whose failures are logged separately: their addresses come from callers.
const maxOutages = 100

// failing returns the outage of a function.
func (l *loop) failing(f Function) *outage.Outage {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.functions[f] == nil {
		if len(l.functions) == maxOutages {
			clear(l.functions)
		}
		log := l.synchronizer.options.Logger.With(slog.String("queue", l.name), slog.String("function", f.String()))
		l.functions[f] = outage.New(log, "match function failing")
	}
	return l.functions[f]
}

// release releases the tickets of matches that no caller gets. If it fails they wait for the pending time-out.
func (l *loop) release(ctx context.Context, matches []handedOut) {
	if len(matches) > 0 {
		l.releaseFailing.Report(ctx, l.synchronizer.release(ctx, l.name, matches))
	}
}
