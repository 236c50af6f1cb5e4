package races_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/delivery"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/function"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/service"
	"github.com/tidemark-dev/tidemark/internal/program/metrics"
	"github.com/tidemark-dev/tidemark/lease"
	"github.com/tidemark-dev/tidemark/receipt"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/channels"
	"github.com/tidemark-dev/tidemark/storage/redis/queues"
)

// Short times, so that servers take over from each other often.
const (
	leaseTTL = 300 * time.Millisecond
	relayAge = 200 * time.Millisecond
	// patience is longer than any slot move or failover, so that every operation succeeds eventually.
	patience = time.Minute
)

// server is one process of the service: connections, a channel service, and matchmaking.
type server struct {
	name     string
	arena    *arena
	conn     *redis.Conn
	queues   *tap
	channels *channel.Service
	tickets  *service.Service
	metrics  *prometheus.Registry
	life     context.Context //nolint:containedctx // ends when the server is killed or stopped
	running  sync.WaitGroup
	die      func()
	stop     func()
}

// hook modifies a server before it runs.
type hook func(*server)

// open returns a server that does not run matchmaking yet.
func (a *arena) open(t *testing.T, name string, hooks ...hook) *server {
	t.Helper()
	s := &server{name: name, arena: a, metrics: prometheus.NewRegistry()}
	var err error
	s.conn, err = redis.Connect(t.Context(), redis.Options{
		URL: a.url, KeyPrefix: a.prefix, Logger: a.log, Metrics: s.metrics, Timeout: patience,
	})
	require.NoError(t, err)
	tickets := queues.New(s.conn, queues.Options{})
	s.queues = &tap{Store: tickets, server: s}
	store, err := channels.New(s.conn, channels.Options{})
	require.NoError(t, err)
	ring, err := receipt.NewKeyring(receipt.Key(bytes.Repeat([]byte{7}, receipt.MinKeyBytes)))
	require.NoError(t, err)
	policies, err := channel.NewPolicies(channel.Policy{TTL: 30 * time.Minute, MaxMessageBytes: 64 << 10}, nil)
	require.NoError(t, err)
	limits := channel.DefaultLimits()
	limits.Linger = time.Second
	s.channels, err = channel.NewService(channel.Options{
		Store: store, Receipts: ring, Policies: policies, Limits: limits, Logger: a.log,
	})
	require.NoError(t, err)
	metrics, err := metrics.NewQueues(s.metrics)
	require.NoError(t, err)
	s.tickets, err = service.New(service.Options{
		Store: s.queues, Lookup: queues.NewLookup(s.conn),
		Channels: delivery.New(tapped{Service: s.channels, server: s}), Build: s.build, Definitions: a.definitions,
		ChannelTTL: 30 * time.Minute, Logger: a.log.With("server", name), Metrics: metrics,
		Timing: service.Timing{LeaseTTL: a.leaseTTL, RelayAge: relayAge, Refresh: time.Second, Drain: 2 * time.Second},
	})
	require.NoError(t, err)
	for _, h := range hooks {
		h(s)
	}
	closing := sync.OnceFunc(func() {
		tickets.Close()
		store.Close()
		s.conn.Close()
	})
	var end context.CancelFunc
	s.life, end = context.WithCancel(context.Background())
	s.die = func() {
		closing()
		end()
	}
	s.stop = func() {
		end()
		s.running.Wait()
	}
	t.Cleanup(func() {
		s.stop()
		closing()
	})
	s.running.Go(func() { a.report(s.channels.Run(s.life)) })
	return s
}

// run directs queues and relays assignments until the server is killed or stopped.
func (s *server) run() {
	s.running.Go(func() { s.arena.report(s.tickets.Run(s.life)) })
}

func (s *server) alive() bool { return s.life.Err() == nil }

// during returns a context that also ends with the server, as connections to it do.
func (s *server) during(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	forget := context.AfterFunc(s.life, cancel)
	return ctx, func() {
		forget()
		cancel()
	}
}

// build returns the parts of a queue.
func (s *server) build(d matchmaking.Definition) (matchmaking.Parts, error) {
	return matchmaking.Parts{
		Matcher:   function.FirstCome(d.Match.Teams, d.Match.TeamSize),
		Evaluator: function.Decollide{},
		Assigner:  places{s},
	}, nil
}

// tap is the store of a server's queues, and records its calls.
type tap struct {
	*queues.Store
	server *server
	// publishing is called before an assignment is published, delivered before entries are removed from the outbox. If
	// they fail, that is not done. They may be nil.
	publishing func(ctx context.Context, channel string) error
	delivered  func(ctx context.Context, entries []string) error
	// answering is called after Redis has executed a create or an assign, before the server receives the reply. If it
	// fails, the server never receives it. It may be nil.
	answering func(ctx context.Context, call string) error
}

func (q *tap) ledger() *ledger { return q.server.arena.ledger }

// Leases implements matchmaking.Leases.
func (q *tap) Leases() lease.Store { return &tappedLeases{Store: q.Store.Leases(), tap: q} }

// tappedLeases records the holders of leases.
type tappedLeases struct {
	lease.Store
	tap *tap
}

// Acquire implements lease.Store.
func (l *tappedLeases) Acquire(ctx context.Context, r lease.Request) (uint64, error) {
	fence, err := l.Store.Acquire(ctx, r)
	l.tap.ledger().leased(l.tap.server, r, err == nil)
	return fence, err
}

// Renew implements lease.Store.
func (l *tappedLeases) Renew(ctx context.Context, rs []lease.Request) []error {
	errs := l.Store.Renew(ctx, rs)
	for i, err := range errs {
		l.tap.ledger().leased(l.tap.server, rs[i], err == nil)
	}
	return errs
}

// Claim implements matchmaking.Claims.
func (q *tap) Claim(ctx context.Context, r matchmaking.ClaimRequest) (matchmaking.Claimed, error) {
	c, err := q.Store.Claim(ctx, r)
	if err == nil {
		q.ledger().claimed(r.Token, c)
	}
	return c, err
}

// Release implements matchmaking.Claims.
func (q *tap) Release(ctx context.Context, queue, token string, ids []string) error {
	q.ledger().releasedClaims(token, ids)
	return q.Store.Release(ctx, queue, token, ids)
}

// Assign implements matchmaking.Claims.
func (q *tap) Assign(ctx context.Context, r matchmaking.AssignRequest) []matchmaking.AssignOutcome {
	q.ledger().assigning(r)
	outcomes := q.Store.Assign(ctx, r)
	if q.answering != nil {
		if err := q.answering(ctx, "assign"); err != nil {
			for i := range outcomes {
				outcomes[i] = matchmaking.AssignOutcome{Err: err}
			}
		}
	}
	q.ledger().assigned(r, outcomes)
	return outcomes
}

// Create implements matchmaking.Creations.
func (q *tap) Create(ctx context.Context, r matchmaking.CreateRequest) (matchmaking.Ticket, bool, error) {
	t, created, err := q.Store.Create(ctx, r)
	if q.answering != nil && err == nil {
		err = q.answering(ctx, "create")
	}
	return t, created, err
}

// Delivered implements matchmaking.Outbox.
func (q *tap) Delivered(ctx context.Context, queue string, entries []string) error {
	if q.delivered != nil {
		if err := q.delivered(ctx, entries); err != nil {
			return err
		}
	}
	return q.Store.Delivered(ctx, queue, entries)
}

// tapped is a server's channels, and records publications.
type tapped struct {
	*channel.Service
	server *server
}

// PublishEach implements delivery.Service.
func (c tapped) PublishEach(ctx context.Context, requests []channel.PublishRequest) []channel.PublishResult {
	results := make([]channel.PublishResult, len(requests))
	for i, r := range requests {
		if before := c.server.queues.publishing; before != nil {
			if results[i].Err = before(ctx, r.Channel); results[i].Err != nil {
				continue
			}
		}
		results[i] = c.Service.PublishEach(ctx, requests[i:i+1])[0]
		c.server.arena.ledger.published(results[i].Published)
	}
	return results
}

// places is a server's assigner. A match's connection contains its ID.
type places struct{ server *server }

func placeOf(match string) string { return "place-of-" + match }

// Allocate implements matchmaking.Assigner.
func (x places) Allocate(ctx context.Context, p matchmaking.Proposal) (matchmaking.Allocation, error) {
	a := x.server.arena
	a.ledger.allocating(x.server, p)
	if a.allocate != nil {
		if err := a.allocate(ctx, x.server, p); err != nil {
			return matchmaking.Allocation{}, fmt.Errorf("no place: %w", err)
		}
	}
	return matchmaking.Allocation{Connection: placeOf(p.ID), Token: "token-of-" + p.ID}, nil
}

// Release implements matchmaking.Assigner.
func (x places) Release(_ context.Context, match string, place matchmaking.Allocation) error {
	x.server.arena.ledger.released(match, place)
	return nil
}
