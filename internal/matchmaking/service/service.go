package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/internal/director"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/internal/outage"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/internal/outbox"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/internal/watch"
	"github.com/tidemark-dev/tidemark/internal/pace"
	"github.com/tidemark-dev/tidemark/lease"
)

// Options configures a Service. Store, Lookup, Channels, Build, ChannelTTL and Logger are required.
type Options struct {
	Store    matchmaking.Store
	Lookup   matchmaking.Lookup
	Channels Channels
	Build    matchmaking.Build
	// Definitions are the queues of the configuration; PutQueue and DeleteQueue refuse to change them.
	Definitions []matchmaking.Definition
	// DefaultDirector is who directs matchmaking.DefaultQueue unless that is defined; empty: the service.
	DefaultDirector matchmaking.Director
	// MaxQueues is the limit of queues for PutQueue, including those of the configuration; zero: DefaultMaxQueues.
	MaxQueues int
	// ChannelTTL is the life of a ticket's channel without activity. It limits the life of a ticket with its
	// assignment.
	ChannelTTL time.Duration
	// Token returns a token for the player of a ticket created by the caller of Create; empty: the caller needs
	// none. nil: tokens are disabled.
	Token   func(ctx context.Context, ticket string, created time.Time) string
	Follow  matchmaking.Follow // traces what follows from traced tickets; nil: nothing is traced
	Logger  *slog.Logger
	Metrics Metrics // nil: nothing is counted
	Timing
}

// Timing holds the durations of a Service. Zero values are replaced by the defaults.
type Timing struct {
	LeaseTTL  time.Duration // duration of a queue's lease without a renewal
	RelayAge  time.Duration // minimum age of an assignment in the outbox for any server to publish it
	Refresh   time.Duration // interval of reads of the stored definitions
	IdleAfter time.Duration // time without tickets after which a director releases the lease
	Drain     time.Duration // limit for matches in progress after the context of Run has ended
}

// Channels delivers assignments to players.
type Channels interface {
	matchmaking.Publisher
	matchmaking.Subscriptions
	// Open creates a ticket's channel and its subscriber if they don't exist.
	Open(ctx context.Context, ticketID string) error
}

// The defaults of Options.
const (
	DefaultMaxQueues = 1000
	DefaultLeaseTTL  = 3 * time.Second
	DefaultRelayAge  = time.Second
	DefaultRefresh   = 2 * time.Second
	DefaultIdleAfter = 10 * time.Second
	DefaultDrain     = 5 * time.Second
)

func (o Options) withDefaults() (Options, error) {
	switch {
	case o.Store == nil || o.Lookup == nil || o.Channels == nil || o.Build == nil || o.Logger == nil:
		return o, errors.New("one of Store, Lookup, Channels, Build and Logger is missing")
	case o.MaxQueues < 0:
		return o, errors.New("negative MaxQueues")
	case o.ChannelTTL <= 0:
		return o, errors.New("missing ChannelTTL")
	case o.LeaseTTL < 0 || o.RelayAge < 0 || o.Refresh < 0 || o.IdleAfter < 0 || o.Drain < 0:
		return o, errors.New("negative duration")
	}
	o.MaxQueues = cmp.Or(o.MaxQueues, DefaultMaxQueues)
	o.LeaseTTL = cmp.Or(o.LeaseTTL, DefaultLeaseTTL)
	o.RelayAge = cmp.Or(o.RelayAge, DefaultRelayAge)
	o.Refresh = cmp.Or(o.Refresh, DefaultRefresh)
	o.IdleAfter = cmp.Or(o.IdleAfter, DefaultIdleAfter)
	o.Drain = cmp.Or(o.Drain, DefaultDrain)
	if o.Metrics == nil {
		o.Metrics = uncounted{}
	}
	return o, nil
}

// Service implements matchmaking for the APIs and embedding programs. It may be used by many goroutines. Tickets can be
// created and read without its Run; they are matched, and their assignments delivered, while any server runs it.
type Service struct {
	options    Options
	registry   *registry
	undo       *undo
	heartbeats *heartbeats
	relay      *outbox.Relay
	watches    *watch.Watches
	leases     *lease.Manager
	idle       *outage.Outage // interval of checks of idle queues
	owners     *owners

	mu      sync.Mutex
	running map[string]*director.Queue // by name
}

// New returns a service. Errors: fault.SlugInvalidQueue for a configured queue, and an error about the options.
func New(o Options) (*Service, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("matchmaking options: %w", err)
	}
	leases, err := lease.NewManager(o.Store.Leases(), lease.Options{TTL: o.LeaseTTL, Logger: o.Logger})
	if err != nil {
		return nil, fmt.Errorf("matchmaking options: %w", err)
	}
	s := &Service{
		options: o, leases: leases, undo: newUndo(o.Store, o.Logger), heartbeats: newHeartbeats(o.Store, o.Logger),
		relay: outbox.New(outbox.Options{
			Store: o.Store, Publisher: o.Channels, Lookup: o.Lookup, Logger: o.Logger, Age: o.RelayAge,
			Keep: o.ChannelTTL,
		}),
		watches: watch.New(o.Store, o.Logger),
		idle:    outage.New(o.Logger, "cannot look at idle queues"),
		running: map[string]*director.Queue{},
	}
	s.owners = newOwners(o.Store, s.ownerOf)
	if s.registry, err = newRegistry(&s.options); err != nil {
		return nil, err
	}
	return s, nil
}

// Run directs queues, relays their assignments and serves Await until ctx ends. Then it proposes no more matches, waits
// for those in progress for at most Timing.Drain, publishes its remaining assignments, and releases its leases. It
// returns nil when all its goroutines have ended. It must be called once.
func (s *Service) Run(ctx context.Context) error {
	relaying, endRelay := context.WithCancel(context.WithoutCancel(ctx))
	defer endRelay()
	var before, relay sync.WaitGroup // relay ends after all sources of assignments
	relay.Go(func() { s.relay.Run(relaying) })
	before.Go(func() { s.registry.watch(ctx) })
	before.Go(func() { s.undo.Run(ctx, s.options.Drain) })
	before.Go(func() { s.heartbeats.run(ctx) })
	before.Go(func() { s.watches.Run(ctx) })
	before.Go(func() { director.VisitIdle(ctx, s.runningQueues) })
	before.Go(func() { s.runQueues(ctx) })
	before.Wait()
	s.relay.Close()
	defer time.AfterFunc(s.options.Drain, endRelay).Stop()
	relay.Wait()
	return nil
}

// runQueues runs all queues, until ctx ends.
func (s *Service) runQueues(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	ended := make(chan string)
	started := map[string]bool{}
	for {
		for name := range s.registry.all() {
			if !started[name] {
				started[name] = true
				running.Go(func() {
					s.runQueue(ctx, name)
					select {
					case ended <- name:
					case <-ctx.Done():
					}
				})
			}
		}
		select {
		case <-s.registry.changed:
		case name := <-ended:
			delete(started, name)
		case <-ctx.Done():
			return
		}
	}
}

// runQueue runs a queue under one definition after the other, until ctx ends or the queue is removed.
func (s *Service) runQueue(ctx context.Context, name string) {
	for ctx.Err() == nil {
		current := s.registry.all()[name]
		if current == nil {
			s.publishRest(ctx, name)
			s.options.Metrics.Forget(name)
			return
		}
		q := director.New(director.Options{
			Definition: current.Definition, Replaced: current.replaced, Build: s.options.Build,
			Store: s.options.Store, Leases: s.leases, Subscriptions: s.options.Channels,
			Wake: func() (director.Metrics, director.Outbox) {
				m := s.options.Metrics.Queue(name)
				return m, s.relay.Queue(name, m)
			},
			Idle: s.idle, Follow: s.options.Follow, Logger: s.options.Logger,
			LeaseTTL: s.options.LeaseTTL, IdleAfter: s.options.IdleAfter, Drain: s.options.Drain,
		})
		s.setRunning(name, q)
		q.Run(ctx)
		s.setRunning(name, nil)
	}
}

// publishRest publishes the assignments in the outbox of a queue that was removed, until there are none, the queue is
// defined again, or their channels have ended.
func (s *Service) publishRest(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(ctx, s.options.ChannelTTL)
	defer cancel()
	var publishing sync.WaitGroup
	defer publishing.Wait()
	publish := sync.OnceFunc(func() {
		q := s.relay.Queue(name, s.options.Metrics.Queue(name))
		publishing.Go(func() { q.Run(ctx, func() bool { return true }) })
	})
	for s.registry.all()[name] == nil {
		state, err := s.options.Store.Describe(ctx, name, 0)
		if err == nil && state.Outgoing == 0 {
			break
		}
		publish()
		if !pace.Sleep(ctx, pace.Jitter(s.options.RelayAge)) {
			break
		}
	}
	cancel()
}

func (s *Service) setRunning(name string, q *director.Queue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q == nil {
		delete(s.running, name)
	} else {
		s.running[name] = q
	}
}

func (s *Service) runningQueues() []*director.Queue {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.running))
}

// directs reports whether this server directs a queue.
func (s *Service) directs(queue string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.running[queue]
	return q != nil && q.Directed()
}

// Metrics counts the operations of a server. Its methods may be called by many goroutines.
type Metrics interface {
	// Queue returns the metrics of one queue. It is called when the queue becomes active.
	Queue(name string) QueueMetrics
	// Forget is called when a queue was deleted.
	Forget(queue string)
	// Created counts a ticket creation on this server.
	Created(queue string)
	// Cancelled counts a successful cancellation on this server, including repetitions.
	Cancelled(queue string)
}

// QueueMetrics counts the operations of a server on one queue.
type QueueMetrics interface {
	director.Metrics
	outbox.Metrics
}

// uncounted implements Metrics without counting.
type uncounted struct{}

func (uncounted) Queue(string) QueueMetrics           { return uncounted{} }
func (uncounted) Forget(string)                       {}
func (uncounted) Created(string)                      {}
func (uncounted) Cancelled(string)                    {}
func (uncounted) Directing(bool)                      {}
func (uncounted) Tickets(int, int)                    {}
func (uncounted) Expired(int)                         {}
func (uncounted) Backfills(int)                       {}
func (uncounted) BackfillsExpired(int)                {}
func (uncounted) Matched([]time.Duration)             {}
func (uncounted) Conflict(matchmaking.ConflictReason) {}
func (uncounted) RoundFailed()                        {}
func (uncounted) ProposalRefused()                    {}
func (uncounted) AllocationFailed()                   {}
func (uncounted) Published(time.Duration)             {}
