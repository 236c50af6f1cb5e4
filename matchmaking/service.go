package matchmaking

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Options is what a Service is made of. Store, Channels, Build, ChannelTTL and Logger are needed.
type Options struct {
	Store    Store
	Channels Channels
	Build    Build
	// Definitions are the queues of the configuration, as [ParseDefinition] gives them. They can't be changed by PutQueue.
	Definitions []Definition
	// MaxQueues is how many queues there may be, those of the configuration included, when PutQueue makes one; zero:
	// DefaultMaxQueues.
	MaxQueues int
	// ChannelTTL is how long a ticket's channel lives without activity. No ticket and its assignment may live longer.
	ChannelTTL time.Duration
	Logger     *slog.Logger
	// Metrics gets the service's metrics; nil: none are registered.
	Metrics prometheus.Registerer
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
	case o.Store == nil || o.Channels == nil || o.Build == nil || o.Logger == nil:
		return o, errors.New("store, channels, build and logger are needed")
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
	return o, nil
}

// Service is matchmaking as the server and those who embed it see it. It may be used by many goroutines. Tickets can
// be made and read without its Run; they are matched, and their assignments delivered, where some server runs it.
type Service struct {
	store      Store
	channels   Channels
	log        *slog.Logger
	metrics    *metrics
	queues     *queues
	undo       *undo
	attendance *attendance
	relay      *relay
	looking    *outage

	leaseTTL, relayAge, refresh, idle, drain, channelTTL time.Duration

	mu        sync.Mutex
	news      map[string]*news     // of the queues that run watches
	directors map[string]*director // of those that aren't idle
}

// NewService makes a service. Errors: fault.SlugInvalidQueue, of a configured queue, and what is wrong with the options.
func NewService(o Options) (*Service, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("matchmaking options: %w", err)
	}
	known, err := newQueues(o)
	if err != nil {
		return nil, err
	}
	m, err := newMetrics(o.Metrics)
	if err != nil {
		return nil, fmt.Errorf("matchmaking metrics: %w", err)
	}
	return &Service{
		store: o.Store, channels: o.Channels, log: o.Logger, metrics: m, queues: known,
		undo: newUndo(o.Store, o.Logger), attendance: newAttendance(o.Store, o.Logger),
		relay:    newRelay(o.Store, o.Channels, o.Logger),
		leaseTTL: o.LeaseTTL, relayAge: o.RelayAge, refresh: o.Refresh, idle: o.IdleAfter, drain: o.Drain, channelTTL: o.ChannelTTL,
		looking: newOutage(o.Logger, "idle queues cannot be looked at"),
		news:    map[string]*news{}, directors: map[string]*director{},
	}, nil
}

// Run directs queues and relays their assignments until ctx ends, and returns nil when all that it started has ended.
// Then it proposes no match any more, lets those that are being made come to their end for Options.Drain at most,
// publishes the assignments that it has in hand, and gives up its leases. It must be called once.
func (s *Service) Run(ctx context.Context) error {
	relaying, endRelay := context.WithCancel(context.WithoutCancel(ctx))
	defer endRelay()
	var before, relay sync.WaitGroup // relay ends after all that hands something to it
	relay.Go(func() { s.relay.run(relaying) })
	before.Go(func() { s.queues.watch(ctx, s.refresh) })
	before.Go(func() { s.undo.run(ctx, s.drain) })
	before.Go(func() { s.attendance.run(ctx) })
	before.Go(func() { s.visitIdle(ctx) })
	before.Go(func() { s.runQueues(ctx) })
	before.Wait()
	s.relay.close()
	defer time.AfterFunc(s.drain, endRelay).Stop()
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
		q := s.queues.known()[name]
		if q == nil {
			s.metrics.forget(name)
			return
		}
		s.runDefinition(ctx, q)
	}
}

// runDefinition watches a queue, and works on it while it isn't idle, until ctx ends or it has another definition.
func (s *Service) runDefinition(ctx context.Context, q *queue) {
	var watching sync.WaitGroup
	defer watching.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	n := newNews()
	watching.Go(func() { s.store.Watch(ctx, q.Name, n.tell) })
	s.setNews(q.Name, n)
	defer s.setNews(q.Name, nil)
	var failures backoff
	var again <-chan time.Time
	for {
		select {
		case <-n.changed:
		case <-again:
		case <-q.over:
			return
		case <-ctx.Done():
			return
		}
		again = nil
		if err := s.wake(ctx, q, n); err != nil {
			again = time.After(failures.next())
		} else {
			failures.reset()
		}
	}
}

// wake works on a queue until it is idle. An error means that it isn't known whether it is.
func (s *Service) wake(ctx context.Context, q *queue, n *news) error {
	d := newDirector(q, n, s)
	first := d.request(ctx)
	if !first.known() {
		s.looking.report(ctx, first.err)
		return first.err
	}
	s.looking.report(ctx, nil)
	if !errors.Is(first.err, ErrQueueIdle) {
		n.idle.Store(false)
		s.work(ctx, d, first)
		n.idle.Store(true)
	}
	return nil
}

// work directs a queue, or waits for its turn to, and looks after its outbox, until the queue is idle, ctx ends or it has
// another definition.
func (s *Service) work(ctx context.Context, d *director, first candidacy) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	d.metrics = s.metrics.queue(d.queue.Name)
	b := &backstop{
		relay: s.relay, queue: d.queue, metrics: d.metrics, age: s.relayAge, keep: s.channelTTL, directed: d.directs.Load,
		failing: map[string]failing{},
	}
	s.setDirector(d.queue.Name, d)
	defer s.setDirector(d.queue.Name, nil)
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { b.run(ctx) })
	running.Go(func() {
		select {
		case <-d.queue.over:
			cancel()
		case <-ctx.Done():
		}
	})
	d.run(ctx, first)
	cancel()
}

func (s *Service) setNews(queue string, n *news) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n == nil {
		delete(s.news, queue)
	} else {
		s.news[queue] = n
	}
}

func (s *Service) setDirector(queue string, d *director) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d == nil {
		delete(s.directors, queue)
	} else {
		s.directors[queue] = d
	}
}

// directed tells whether this server directs a queue.
func (s *Service) directed(queue string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.directors[queue]
	return d != nil && d.directs.Load()
}
