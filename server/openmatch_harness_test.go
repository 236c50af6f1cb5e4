package server_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/oklog/ulid/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/matchmaking/service"
	"github.com/tidemark-dev/tidemark/openmatch/openmatchconnect"
	"github.com/tidemark-dev/tidemark/server"
)

// rpcHarness is a harness whose server has Open Match's services, on a matchmaker that does what it is told.
type rpcHarness struct {
	*harness
	matches *matches
	handler http.Handler
	url     string
	drain   func()
	ready   atomic.Pointer[error]
}

func startRPC(t testing.TB, changes ...func(*server.Options)) *rpcHarness {
	t.Helper()
	r := &rpcHarness{harness: start(t)}
	r.matches = &matches{channels: r.service, tickets: map[string]*matchmaking.Ticket{}}
	options := server.Options{
		Service: r.service, Logger: slog.New(r.logs), Metrics: prometheus.NewRegistry(), Storage: func() channel.Storage { return storage },
		Ready: func(context.Context) error {
			if err := r.ready.Load(); err != nil {
				return *err
			}
			return nil
		},
	}
	for _, change := range changes {
		change(&options)
	}
	s := server.New(options)
	drain := server.MountRPC(s, r.matches)
	r.drain = func() {
		drain()
		r.service.Drain()
	}
	r.handler = s.Handler()
	r.url = serveRPC(t, r.handler, time.Minute)
	return r
}

// serveRPC serves HTTP/1.1 and HTTP/2 without TLS until the test ends, with a time limit for whole requests and answers.
func serveRPC(t testing.TB, h http.Handler, limit time.Duration) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	hs := &http.Server{Handler: h, Protocols: protocols, ReadTimeout: limit, WriteTimeout: limit}
	ended := make(chan error, 1)
	go func() { ended <- hs.Serve(l) }()
	t.Cleanup(func() {
		require.NoError(t, hs.Close())
		require.ErrorIs(t, <-ended, http.ErrServerClosed)
	})
	return "http://" + l.Addr().String()
}

// protocol is a way to call the services.
type protocol struct {
	name    string
	http2   bool
	options []connect.ClientOption
}

var protocols = []protocol{
	{"gRPC", true, []connect.ClientOption{connect.WithGRPC()}},
	{"gRPC-Web", true, []connect.ClientOption{connect.WithGRPCWeb()}},
	{"gRPC-Web on HTTP 1.1", false, []connect.ClientOption{connect.WithGRPCWeb()}},
	{"Connect", true, nil},
	{"Connect on HTTP 1.1", false, nil},
	{"Connect with JSON", true, []connect.ClientOption{connect.WithProtoJSON()}},
}

// rpcClient makes an HTTP client that speaks HTTP/2 without TLS, or HTTP/1.1.
func rpcClient(t testing.TB, http2 bool) *http.Client {
	t.Helper()
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetHTTP1(!http2)
	transport.Protocols.SetUnencryptedHTTP2(http2)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func (r *rpcHarness) frontend(p protocol) openmatchconnect.FrontendServiceClient {
	return openmatchconnect.NewFrontendServiceClient(rpcClient(r.t, p.http2), r.url, p.options...)
}

func (r *rpcHarness) query() openmatchconnect.QueryServiceClient {
	return openmatchconnect.NewQueryServiceClient(rpcClient(r.t, true), r.url, connect.WithGRPC())
}

// isRPC checks code and text of an error.
func isRPC(t testing.TB, err error, code connect.Code, text string) {
	t.Helper()
	var e *connect.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, code, e.Code(), "%s", err)
	require.Equal(t, text, e.Message())
}

// matches is a matchmaker whose matches the test makes. Its tickets have channels.
type matches struct {
	channels *channel.Service

	mu          sync.Mutex
	fail        func() error // of all calls that can fail; nil: they work
	tickets     map[string]*matchmaking.Ticket
	definitions []matchmaking.Definition
	walking     func() // before a queue's tickets are read
	attending   int
	reads       int // calls of Ticket
}

func (m *matches) enter() error {
	if m.fail != nil {
		return m.fail()
	}
	return nil
}

func (m *matches) Create(ctx context.Context, n service.NewTicket) (matchmaking.Ticket, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.enter(); err != nil {
		return matchmaking.Ticket{}, false, err
	}
	if t := m.tickets[n.ID]; t != nil {
		return *t, false, nil
	}
	t := &matchmaking.Ticket{
		ID: n.ID, Queue: n.Queue, Spec: n.Spec, CreateTime: time.Now().UTC().Truncate(time.Microsecond), Status: matchmaking.Searching,
	}
	if t.ID == "" {
		t.ID = ulid.Make().String()
	}
	_, err := m.channels.Subscribe(ctx, matchmaking.ChannelOf(t.ID), matchmaking.Subscriber, channel.From{})
	m.tickets[t.ID] = t
	return *t, true, err
}

func (m *matches) Ticket(_ context.Context, id string) (matchmaking.Ticket, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reads++
	if err := m.enter(); err != nil {
		return matchmaking.Ticket{}, err
	}
	if t := m.tickets[id]; t != nil {
		return *t, nil
	}
	return matchmaking.Ticket{}, matchmaking.ErrNoTicket
}

func (m *matches) Cancel(ctx context.Context, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.enter(); err != nil {
		return err
	}
	switch t := m.tickets[id]; {
	case t == nil:
		return nil
	case t.Status == matchmaking.MatchFound:
		return matchmaking.ErrTicketMatched
	default:
		t.Status = matchmaking.Cancelled
	}
	return m.channels.Unsubscribe(ctx, matchmaking.ChannelOf(id), matchmaking.Subscriber)
}

func (m *matches) Attend(context.Context, string) (stop func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.attending++
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.attending--
	}
}

func (m *matches) Waiting(_ context.Context, r matchmaking.WaitingRequest, each func([]*matchmaking.Ticket) error) error {
	m.mu.Lock()
	walking := m.walking
	m.mu.Unlock()
	if walking != nil {
		walking()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.enter(); err != nil {
		return err
	}
	var waiting []*matchmaking.Ticket
	for _, t := range m.tickets {
		if t.Queue == r.Queue && t.Status == matchmaking.Searching {
			waiting = append(waiting, t)
		}
	}
	slices.SortFunc(waiting, func(a, b *matchmaking.Ticket) int { return a.CreateTime.Compare(b.CreateTime) })
	return each(waiting)
}

func (m *matches) Definitions() []matchmaking.Definition {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.definitions
}

// assign gives a ticket its match, and publishes the assignment.
func (m *matches) assign(t testing.TB, id, connection string) {
	t.Helper()
	a := matchmaking.Assignment{
		TicketID: id, MatchID: "m-" + id, Queue: "q", Connection: connection,
		Extensions: map[string]json.RawMessage{"region": json.RawMessage(`"eu"`)},
	}
	content, err := json.Marshal(a)
	require.NoError(t, err)
	m.mu.Lock()
	m.tickets[id].Status, m.tickets[id].Assignment = matchmaking.MatchFound, &a
	m.mu.Unlock()
	_, err = m.channels.Publish(t.Context(), matchmaking.ChannelOf(id), []channel.Draft{{ID: matchmaking.MessagePrefix + a.MatchID, Content: content}})
	require.NoError(t, err)
}

func (m *matches) set(change func(*matches)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(m)
}

func (m *matches) get(id string) matchmaking.Ticket {
	m.mu.Lock()
	defer m.mu.Unlock()
	return *m.tickets[id]
}
