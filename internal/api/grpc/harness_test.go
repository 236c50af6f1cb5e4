package grpc_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	grpcgo "google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/api/grpc"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/service"
	"github.com/tidemark-dev/tidemark/openmatch"
	"github.com/tidemark-dev/tidemark/test/servertest"
)

// harness serves the services on a matchmaker controlled by the test, and on channels in memory.
type harness struct {
	t       testing.TB
	router  *web.Router
	matches *matches
	logs    *servertest.Logs
	metrics *prometheus.Registry
	url     string // of the HTTP port
	address string // of the listener of gRPC
	served  *grpc.Services
	ready   atomic.Pointer[error] // of the readiness check; nil: it succeeds
}

const (
	maxBodyBytes = 80 << 10 // more than bodies that don't take turns
	maxStreams   = 40
	bodyMemory   = 8 << 20
)

func start(t testing.TB, changes ...func(*grpc.Services)) *harness {
	t.Helper()
	return serve(t, &matches{tickets: map[string]*matchmaking.Ticket{}}, nil, changes...)
}

// serve serves the services to the clients that the guard permits.
func serve(t testing.TB, m *matches, guard *access.Guard, changes ...func(*grpc.Services)) *harness {
	t.Helper()
	h := &harness{t: t, logs: servertest.NewLogs(), matches: m, metrics: prometheus.NewRegistry()}
	h.router = web.New(web.Options{
		Guard:  guard,
		Logger: slog.New(h.logs), Metrics: h.metrics, MaxBodyBytes: maxBodyBytes, BodyMemory: bodyMemory, ReadTimeout: time.Minute,
		Ready: func(context.Context) error {
			if err := h.ready.Load(); err != nil {
				return *err
			}
			return nil
		},
	})
	services := grpc.New(grpc.Options{
		Router: h.router, Tickets: h.matches, Queues: h.matches, Backfills: &h.matches.backfills,
		Director: &h.matches.director,
		Limits:   grpc.Limits{MessageBytes: maxBodyBytes, Streams: maxStreams},
	})
	services.AddRoutes()
	h.served = services
	for _, change := range changes {
		change(services)
	}
	h.url = servertest.Serve(t, h.router, time.Minute)
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	h.address = l.Addr().String()
	ended := make(chan error, 1)
	go func() { ended <- services.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), servertest.Patience)
		defer cancel()
		require.NoError(t, services.Drain(ctx))
		require.NoError(t, <-ended)
	})
	return h
}

func (h *harness) drain() {
	h.router.Drain()
	h.matches.Drain()
}

func (h *harness) frontend(p servertest.Protocol) openmatch.FrontendServiceClient {
	return openmatch.NewFrontendServiceClient(h.dial(p))
}

func (h *harness) dial(p servertest.Protocol) grpcgo.ClientConnInterface {
	return p.Dial(h.t, h.address, h.url)
}

// create creates a ticket. The metadata are alternating names and values.
func (h *harness) create(f openmatch.FrontendServiceClient, ticket *openmatch.Ticket, kv ...string) *openmatch.Ticket {
	h.t.Helper()
	ctx := metadata.AppendToOutgoingContext(h.t.Context(), kv...)
	created, err := f.CreateTicket(ctx, &openmatch.CreateTicketRequest{Ticket: ticket})
	require.NoError(h.t, err)
	return created
}

// newID creates a ticket, and returns its ID.
func (h *harness) newID(f openmatch.FrontendServiceClient) string {
	h.t.Helper()
	return h.create(f, &openmatch.Ticket{}).GetId()
}

func (h *harness) get(f openmatch.FrontendServiceClient, id string) (*openmatch.Ticket, error) {
	return f.GetTicket(h.t.Context(), &openmatch.GetTicketRequest{TicketId: id})
}

// isError checks the code and the text of an error.
func isError(t testing.TB, err error, code codes.Code, text string) {
	t.Helper()
	require.Equal(t, code, status.Code(err), "%v", err)
	require.Equal(t, text, status.Convert(err).Message())
}

// awaitWaiting waits until exactly n watches wait.
func (h *harness) awaitWaiting(n int) {
	h.t.Helper()
	require.Eventually(h.t, func() (reached bool) {
		h.matches.set(func() { reached = h.matches.waiting == n })
		return reached
	}, servertest.Patience, servertest.Step)
}

// matches is a matchmaker controlled by the test.
type matches struct {
	mu          sync.Mutex
	changed     chan struct{} // closed by the next change; nil: no waiter
	drained     bool
	waiting     int          // calls of Await
	fail        func() error // of all calls that can fail; nil: they succeed
	tickets     map[string]*matchmaking.Ticket
	created     int // tickets
	definitions []matchmaking.Definition
	walking     func() // called before a queue's tickets are read; may be nil
	creating    func() // called before a ticket is created; may be nil
	backfills   backfills
	director    director
	token       func(ctx context.Context, ticket string, created time.Time) string
}

// locked runs call with the lock held, unless calls are set to fail.
func (m *matches) locked(call func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return m.fail()
	}
	return call()
}

func (m *matches) Create(_ context.Context, n service.NewTicket) (created matchmaking.Ticket, isNew bool, err error) {
	var creating func()
	m.set(func() { creating = m.creating })
	if creating != nil {
		creating()
	}
	err = m.locked(func() error {
		if t := m.tickets[n.ID]; t != nil {
			created = *t
			return nil
		}
		isNew = true
		m.created++
		created = matchmaking.Ticket{
			ID: cmp.Or(n.ID, fmt.Sprintf("t%d", m.created)), Queue: n.Queue, Spec: n.Spec, Owner: n.Owner,
			CreateTime: time.Now().UTC().Truncate(time.Microsecond), Status: matchmaking.Searching,
		}
		kept := created
		m.tickets[created.ID] = &kept
		return nil
	})
	return created, isNew, err
}

func (m *matches) Token(ctx context.Context, t *matchmaking.Ticket) string {
	if m.token == nil {
		return ""
	}
	return m.token(ctx, t.ID, t.CreateTime)
}

// Owner returns the owner of a ticket, for the guard.
func (m *matches) Owner(ctx context.Context, id string) (owner string, created time.Time, err error) {
	t, err := m.Ticket(ctx, id)
	return t.Owner, t.CreateTime, err
}

func (m *matches) Ticket(_ context.Context, id string) (ticket matchmaking.Ticket, err error) {
	err = m.locked(func() error {
		if t := m.tickets[id]; t != nil {
			ticket = *t
			return nil
		}
		return matchmaking.ErrNoTicket
	})
	return ticket, err
}

func (m *matches) Deindex(_ context.Context, id string) error {
	return m.locked(func() error {
		switch t := m.tickets[id]; {
		case t == nil:
			return nil
		case t.Status == matchmaking.MatchFound:
			return matchmaking.ErrTicketMatched
		default:
			t.Status, t.Deindexed = matchmaking.Cancelled, true
		}
		m.wake()
		return nil
	})
}

func (m *matches) Delete(_ context.Context, id string) error {
	return m.locked(func() error {
		if t := m.tickets[id]; t != nil && t.Status == matchmaking.MatchFound {
			delete(m.tickets, id)
		} else if t != nil {
			t.Status, t.Deindexed = matchmaking.Cancelled, false
		}
		m.wake()
		return nil
	})
}

func (m *matches) Await(ctx context.Context, id string) (a *matchmaking.Assignment, err error) {
	m.set(func() { m.waiting++ })
	defer m.set(func() { m.waiting-- })
	err = m.until(ctx, func() (bool, error) {
		t := m.tickets[id]
		if t == nil || t.Status == matchmaking.Cancelled || t.Status == matchmaking.Expired {
			return false, matchmaking.ErrNoTicket
		}
		a = t.Assignment
		return a != nil, nil
	})
	return a, err
}

func (m *matches) AwaitEnd(ctx context.Context, _, id string) error {
	return m.until(ctx, func() (bool, error) { return m.tickets[id] == nil, nil })
}

// until waits for a condition. Drain ends it.
func (m *matches) until(ctx context.Context, happened func() (bool, error)) error {
	for {
		var yes bool
		var changed <-chan struct{}
		err := m.locked(func() (err error) {
			if m.drained {
				return fault.ErrUnavailable
			}
			if m.changed == nil {
				m.changed = make(chan struct{})
			}
			changed = m.changed
			yes, err = happened()
			return err
		})
		if yes || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (m *matches) Drain() {
	m.set(func() {
		m.drained = true
		m.wake()
	})
}

func (m *matches) Resume() { m.set(func() { m.drained = false }) }

// wake makes all calls of Await check again. The caller holds the lock.
func (m *matches) wake() {
	if m.changed != nil {
		close(m.changed)
		m.changed = nil
	}
}

func (m *matches) Waiting(_ context.Context, r matchmaking.WaitingRequest, each func([]*matchmaking.Ticket) error) error {
	var walking func()
	m.set(func() { walking = m.walking })
	if walking != nil {
		walking()
	}
	return m.locked(func() error {
		var waiting []*matchmaking.Ticket
		for _, t := range m.tickets {
			if t.Queue == r.Queue && (t.Status == matchmaking.Searching || t.Status == matchmaking.Pending && !r.Free) {
				waiting = append(waiting, t)
			}
		}
		slices.SortFunc(waiting, func(a, b *matchmaking.Ticket) int { return a.CreateTime.Compare(b.CreateTime) })
		return each(waiting)
	})
}

func (m *matches) Definitions() []matchmaking.Definition {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.definitions
}

// assign puts a ticket into a match.
func (m *matches) assign(id, connection string) {
	m.set(func() {
		m.tickets[id].Status = matchmaking.MatchFound
		m.tickets[id].Assignment = &matchmaking.Assignment{
			TicketID: id, MatchID: "m-" + id, Queue: "q", Connection: connection,
			Extensions: map[string]json.RawMessage{"region": json.RawMessage(`"eu"`)},
		}
		m.wake()
	})
}

// set runs change with the lock held.
func (m *matches) set(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

func (m *matches) get(id string) (t matchmaking.Ticket) {
	m.set(func() { t = *m.tickets[id] })
	return t
}

// statusField returns a field of the status of a call, which is in the headers of an answer without a message.
func statusField(response *http.Response, name string) string {
	return response.Header.Get(name) + response.Trailer.Get(name)
}
