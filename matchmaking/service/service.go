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

	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/matchmaking/director"
	"github.com/tidemark-dev/tidemark/matchmaking/internal/outage"
	"github.com/tidemark-dev/tidemark/matchmaking/outbox"
)

// Options is what a Service is made of. Store, Lookup, Channels, Build, ChannelTTL and Logger are needed.
type Options struct {
	Store    matchmaking.Store
	Lookup   matchmaking.Lookup
	Channels Channels
	Build    matchmaking.Build
	// Definitions are the queues of the configuration, as [matchmaking.ParseDefinition] gives them. They can't be changed
	// by PutQueue.
	Definitions []matchmaking.Definition
	// MaxQueues is how many queues there may be, those of the configuration included, when PutQueue makes one; zero:
	// DefaultMaxQueues.
	MaxQueues int
	// ChannelTTL is how long a ticket's channel lives without activity. No ticket and its assignment may live longer.
	ChannelTTL time.Duration
	Logger     *slog.Logger
	// Metrics gets what the service counts; nil: nothing is counted.
	Metrics Metrics
	// Timing is how long things take. Its zero value is the defaults.
	Timing
}

// Timing is how long things take.
type Timing struct {
	// LeaseTTL is how long the direction of a queue is kept without a sign of life; zero: DefaultLeaseTTL.
	LeaseTTL time.Duration
	// RelayAge is how long an assignment stands in the outbox before a relay that doesn't know it publishes it; zero:
	// DefaultRelayAge.
	RelayAge time.Duration
	// Refresh is how often definitions that other servers were given are read; zero: DefaultRefresh.
	Refresh time.Duration
	// IdleAfter is how long a queue must have been empty before its director gives it up, until there is a ticket; zero:
	// DefaultIdleAfter.
	IdleAfter time.Duration
	// Drain is how long matches that are being made may go on after Run's context has ended; zero: DefaultDrain.
	Drain time.Duration
}

// Channels is what matchmaking needs of the channels that assignments are delivered on.
type Channels interface {
	outbox.Publisher
	matchmaking.Subscriptions
}

// Defaults of the options.
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
		return o, errors.New("store, lookup, channels, build and logger are needed")
	case o.MaxQueues < 0:
		return o, errors.New("the number of queues is negative")
	case o.ChannelTTL <= 0:
		return o, errors.New("the life of tickets' channels isn't positive")
	case o.LeaseTTL < 0 || o.RelayAge < 0 || o.Refresh < 0 || o.IdleAfter < 0 || o.Drain < 0:
		return o, errors.New("a duration is negative")
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

// Service is matchmaking as the server and those who embed it see it. It may be used by many goroutines. Tickets can
// be made and read without its Run; they are matched, and their assignments delivered, where some server runs it.
type Service struct {
	o          Options
	log        *slog.Logger
	queues     *queues
	undo       *undo
	attendance *attendance
	relay      *outbox.Relay
	idle       *outage.Outage // that it isn't known whether queues are idle

	mu      sync.Mutex
	running map[string]*director.Queue // that run works on
}

// New makes a service. Errors: SlugInvalidQueue, of a configured queue, and what is wrong with the options.
func New(o Options) (*Service, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("matchmaking options: %w", err)
	}
	known, err := newQueues(o)
	if err != nil {
		return nil, err
	}
	return &Service{
		o: o, log: o.Logger, queues: known,
		undo: newUndo(o.Store, o.Logger), attendance: newAttendance(o.Store, o.Logger),
		relay: outbox.New(outbox.Options{
			Store: o.Store, Publisher: o.Channels, Lookup: o.Lookup, Logger: o.Logger, Age: o.RelayAge, Keep: o.ChannelTTL,
		}),
		idle:    outage.New(o.Logger, "idle queues cannot be looked at"),
		running: map[string]*director.Queue{},
	}, nil
}

// Run directs queues and relays their assignments until ctx ends, and returns nil when all that it started has ended.
// Then it proposes no match any more, lets those that are being made come to their end for Options.Drain at most,
// publishes the assignments that it has in hand, and gives up its leases. It must be called once.
func (s *Service) Run(ctx context.Context) error {
	relaying, endRelay := context.WithCancel(context.WithoutCancel(ctx))
	defer endRelay()
	var before, relay sync.WaitGroup // relay ends after all that hands something to it
	relay.Go(func() { s.relay.Run(relaying) })
	before.Go(func() { s.queues.watch(ctx, s.o.Refresh) })
	before.Go(func() { s.undo.run(ctx, s.o.Drain) })
	before.Go(func() { s.attendance.run(ctx) })
	before.Go(func() { director.VisitIdle(ctx, s.runningQueues) })
	before.Go(func() { s.runQueues(ctx) })
	before.Wait()
	s.relay.Close()
	defer time.AfterFunc(s.o.Drain, endRelay).Stop()
	relay.Wait()
	return nil
}

// runQueues works on all queues there are, until ctx ends.
func (s *Service) runQueues(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	ended := make(chan string)
	working := map[string]bool{}
	for {
		for name := range s.queues.known() {
			if !working[name] {
				working[name] = true
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
		case <-s.queues.changed:
		case name := <-ended:
			delete(working, name)
		case <-ctx.Done():
			return
		}
	}
}

// runQueue works on a queue, under one definition after the other, until ctx ends or there is none.
func (s *Service) runQueue(ctx context.Context, name string) {
	for ctx.Err() == nil {
		known := s.queues.known()[name]
		if known == nil {
			s.o.Metrics.Forget(name)
			return
		}
		q := director.New(director.Options{
			Definition: known.Definition, Over: known.over, Build: s.queues.build, Store: s.o.Store, Subscriptions: s.o.Channels,
			Wake: func() (director.Metrics, director.Outbox) {
				m := s.o.Metrics.Queue(name)
				return m, s.relay.Queue(name, m)
			},
			Idle: s.idle, Logger: s.log,
			LeaseTTL: s.o.LeaseTTL, IdleAfter: s.o.IdleAfter, Drain: s.o.Drain,
		})
		s.setRunning(name, q)
		q.Run(ctx)
		s.setRunning(name, nil)
	}
}

func (s *Service) setRunning(queue string, q *director.Queue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q == nil {
		delete(s.running, queue)
	} else {
		s.running[queue] = q
	}
}

// runningQueues returns the queues that run works on.
func (s *Service) runningQueues() []*director.Queue {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.running))
}

// directed reports whether this server directs a queue.
func (s *Service) directed(queue string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.running[queue]
	return q != nil && q.Directed()
}
