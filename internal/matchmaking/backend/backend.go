package backend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

// Options configures a Synchronizer. All but Follow, Metrics and Limits are required.
type Options struct {
	Store     Store
	Functions Functions
	// Evaluator returns the evaluator of a queue.
	Evaluator func(d matchmaking.Definition) (Evaluator, error)
	// Queue returns the definition of a queue that is directed by its user. Its errors are returned to callers.
	Queue   func(ctx context.Context, name string) (matchmaking.Definition, error)
	Follow  matchmaking.Follow // traces evaluations; nil: nothing is traced
	Logger  *slog.Logger
	Metrics Metrics // nil: nothing is counted
	Limits  Limits
}

// Limits are the limits of a Synchronizer. Zero values are replaced by the defaults.
type Limits struct {
	Calls        int // in progress in this server
	ProfileBytes int // of the profile of a call
	Matches      int // proposed in a cycle
	// Bytes limits what all calls of a server keep in memory: profiles, proposals, and matches that their callers
	// haven't read.
	Bytes int
	Stall time.Duration // of a caller that has unread matches and reads none
	Cycle time.Duration // of functions and evaluator beyond the queue's intervals: then they are cancelled
	Idle  time.Duration // without a call, after which a queue's loop and evaluator are closed
}

// The defaults of Options.
const (
	DefaultCalls        = 1000
	DefaultProfileBytes = 1 << 20
	DefaultMatches      = 100_000
	DefaultBytes        = 512 << 20
	DefaultStall        = time.Minute
	DefaultCycle        = time.Minute
	DefaultIdle         = 10 * time.Second
)

func (o Options) withDefaults() (Options, error) {
	if o.Store == nil || o.Functions == nil || o.Evaluator == nil || o.Queue == nil || o.Logger == nil {
		return o, errors.New("one of Store, Functions, Evaluator, Queue and Logger is missing")
	}
	if o.Metrics == nil {
		o.Metrics = uncounted{}
	}
	l := &o.Limits
	l.Calls = cmp.Or(l.Calls, DefaultCalls)
	l.ProfileBytes = cmp.Or(l.ProfileBytes, DefaultProfileBytes)
	l.Matches = cmp.Or(l.Matches, DefaultMatches)
	l.Bytes = cmp.Or(l.Bytes, DefaultBytes)
	l.Stall = cmp.Or(l.Stall, DefaultStall)
	l.Cycle = cmp.Or(l.Cycle, DefaultCycle)
	l.Idle = cmp.Or(l.Idle, DefaultIdle)
	return o, nil
}

// Synchronizer fetches matches. It may be used by many goroutines.
type Synchronizer struct {
	options Options
	started chan struct{} // closed when Run has started
	starts  chan *loop    // to Run
	room    room
	ended   chan struct{} // closed when Run has ended

	mu    sync.Mutex
	loops map[string]*loop // by queue
	calls int              // in progress
}

// New returns a Synchronizer.
func New(o Options) (*Synchronizer, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("backend options: %w", err)
	}
	return &Synchronizer{
		options: o, started: make(chan struct{}), starts: make(chan *loop), ended: make(chan struct{}),
		loops: map[string]*loop{}, room: room{limit: o.Limits.Bytes},
	}, nil
}

// Run runs the cycles of queues until ctx ends. Then calls in progress fail as unavailable. It must be called once;
// Fetch waits for it.
func (s *Synchronizer) Run(ctx context.Context) error {
	close(s.started)
	defer close(s.ended)
	var running sync.WaitGroup
	defer running.Wait()
	for {
		select {
		case l := <-s.starts:
			running.Go(func() {
				defer s.forget(l)
				l.run(ctx)
			})
		case <-ctx.Done():
			return nil
		}
	}
}

// Fetch runs a function, and calls each with every match that the evaluator accepts and whose tickets are handed out,
// one after the other, as they come. The tickets of a match for which each returns an error, and of later ones, are
// released; Fetch then returns that error. If ctx ends the function is cancelled. each is called with a match only
// while the match's tickets are held: then they are in no other match.
//
// Errors: a *Failure of the function or the evaluator, perhaps wrapped; fault.SlugInvalidRequest; fault.SlugOverloaded
// at the limit of calls; a *Failure at the limit of bytes; fault.SlugRateLimited if the caller reads too slowly;
// fault.ErrUnavailable if the storage can't serve, or Run has ended; those of Options.Queue.
func (s *Synchronizer) Fetch(ctx context.Context, r FetchRequest, each func(Match) error) (err error) {
	began, matches := time.Now(), 0
	if err := s.check(ctx, r); err != nil {
		return err
	}
	if err := s.begin(len(r.Profile)); err != nil {
		return err
	}
	defer s.end(len(r.Profile))
	defer func() { s.options.Metrics.Fetched(r.Queue, time.Since(began), matches, err) }()
	counted := func(m Match) error {
		err := each(m)
		if err == nil {
			matches++
		}
		return err
	}
	select {
	case <-s.started:
		return s.enter(r.Queue).serve(newCall(ctx, r, s), counted)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// enter returns the loop of a queue, which it has entered. It starts one if there is none. If Run has ended the loop is
// closed.
func (s *Synchronizer) enter(queue string) *loop {
	s.mu.Lock()
	l := s.loops[queue]
	if l != nil && l.enter() {
		s.mu.Unlock()
		return l
	}
	l = newLoop(s, queue)
	l.enter()
	s.loops[queue] = l
	s.mu.Unlock()
	select {
	case s.starts <- l:
	case <-s.ended:
		l.end()
		s.forget(l)
	}
	return l
}

// forget removes a loop that has ended, unless the next one has started.
func (s *Synchronizer) forget(l *loop) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.loops[l.name] == l {
		delete(s.loops, l.name)
	}
}

// check returns an error if a request can't be served.
func (s *Synchronizer) check(ctx context.Context, r FetchRequest) error {
	if size, limit := len(r.Profile), s.options.Limits.ProfileBytes; size > limit {
		return invalid("profile", "the profile has %d bytes, and may have %d", size, limit)
	}
	if err := s.options.Functions.Check(r.Function); err != nil {
		return err
	}
	_, err := s.options.Queue(ctx, r.Queue)
	return err
}

// begin counts a call in progress, whose request has size bytes. Errors: errOverloaded, errNoRoom.
func (s *Synchronizer) begin(size int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.calls >= s.options.Limits.Calls:
		return errOverloaded
	case !s.room.acquire(size):
		return errNoRoom
	}
	s.calls++
	return nil
}

func (s *Synchronizer) end(size int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls--
	s.room.release(size)
}

// Limits of a release. Matches with a backfill have a token of their own, each a call.
const (
	releaseTimeout = 5 * time.Second
	releasesAtOnce = 32
)

// release releases the tickets of matches of a queue, also after ctx has ended, and deletes the backfills that were
// created with them, unless other matches have joined these.
func (s *Synchronizer) release(ctx context.Context, queue string, matches []handedOut) (err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	tickets, created, byToken := 0, []string(nil), map[string][]string{}
	for _, m := range matches {
		tickets += len(m.tickets)
		if m.Created != nil {
			created = append(created, m.Created.ID)
		}
		if len(m.tickets) > 0 {
			byToken[m.token] = append(byToken[m.token], m.tickets...)
		}
	}
	if len(created) > 0 {
		err = s.options.Store.DeleteNewBackfills(ctx, queue, created)
	}
	var releasing errgroup.Group
	releasing.SetLimit(releasesAtOnce)
	for token, ids := range byToken {
		releasing.Go(func() error { return s.options.Store.Release(ctx, queue, token, ids) })
	}
	err = errors.Join(err, releasing.Wait())
	s.options.Metrics.Released(queue, tickets)
	return err
}
