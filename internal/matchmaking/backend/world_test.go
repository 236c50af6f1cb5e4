package backend_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/backend"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/callout"
	"github.com/tidemark-dev/tidemark/openmatch"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/queues"
	"github.com/tidemark-dev/tidemark/test/redistest"
	"github.com/tidemark-dev/tidemark/test/storagetest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// patience limits the waits of tests.
const patience = 30 * time.Second

// onEach runs a test on each kind of Redis.
func onEach(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	storagetest.Each(t, func(t *testing.T, r storagetest.Redis) { test(t, newWorld(t, r.URL)) })
}

// onOne runs a test on a standalone Redis.
func onOne(t *testing.T) *world {
	t.Helper()
	return newWorld(t, redistest.Standalone(t).URL())
}

// world is a queue on a Redis, with a match function and an evaluator.
type world struct {
	t      *testing.T
	url    string // of Redis
	prefix string
	store  *queues.Store
	queue  matchmaking.Definition
	limits backend.Limits
	mmf    backend.Function

	mu        sync.Mutex
	functions map[string]mmf // by profile
}

// mmf is a match function, and decide an evaluator. Both end with the error that they return.
type (
	mmf    func(ctx context.Context, propose func(*openmatch.Match)) error
	decide func(ctx context.Context, next func() *openmatch.Match, accept func(id string)) error
)

func newWorld(t *testing.T, url string) *world {
	t.Helper()
	w := &world{t: t, url: url, prefix: redistest.Prefix(t), functions: map[string]mmf{}}
	w.store = w.connect(url)
	d, err := matchmaking.ParseDefinition("open", []byte(`{"director":"user"}`))
	require.NoError(t, err)
	w.queue = d
	host, port, err := net.SplitHostPort(w.serve(func(s *grpc.Server) {
		openmatch.RegisterMatchFunctionServer(s, functionService{w: w})
	}))
	require.NoError(t, err)
	number, err := strconv.Atoi(port)
	require.NoError(t, err)
	w.mmf = backend.Function{Kind: backend.FunctionGRPC, Host: host, Port: number}
	return w
}

func (w *world) connect(url string) *queues.Store {
	w.t.Helper()
	conn, err := redis.Connect(w.t.Context(),
		redis.Options{URL: url, KeyPrefix: w.prefix, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(w.t, err)
	w.t.Cleanup(conn.Close)
	s := queues.New(conn, queues.Options{})
	w.t.Cleanup(s.Close)
	return s
}

// serve serves a gRPC service until the test ends, and returns its address.
func (w *world) serve(register func(*grpc.Server)) string {
	w.t.Helper()
	l, err := (&net.ListenConfig{}).Listen(w.t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(w.t, err)
	server := grpc.NewServer(grpc.WaitForHandlers(true))
	register(server)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	w.t.Cleanup(func() {
		server.Stop()
		if err := <-ended; !errors.Is(err, grpc.ErrServerStopped) { // before it served anything
			require.NoError(w.t, err)
		}
	})
	return l.Addr().String()
}

type functionService struct {
	openmatch.UnimplementedMatchFunctionServer
	w *world
}

func (f functionService) Run(r *openmatch.RunRequest, s grpc.ServerStreamingServer[openmatch.RunResponse]) error {
	f.w.mu.Lock()
	run := f.w.functions[r.GetProfile().GetName()]
	f.w.mu.Unlock()
	if run == nil {
		return nil
	}
	return run(s.Context(), func(m *openmatch.Match) { _ = s.Send(&openmatch.RunResponse{Proposal: m}) })
}

// function sets the function of a profile.
func (w *world) function(profile string, f mmf) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.functions[profile] = f
}

// proposing returns a function with constant proposals.
func proposing(matches ...*openmatch.Match) mmf {
	return func(_ context.Context, propose func(*openmatch.Match)) error {
		for _, m := range matches {
			propose(m)
		}
		return nil
	}
}

type evaluatorService struct {
	openmatch.UnimplementedEvaluatorServer
	decide decide
}

func (e evaluatorService) Evaluate(s grpc.BidiStreamingServer[openmatch.EvaluateRequest,
	openmatch.EvaluateResponse]) error {
	next := func() *openmatch.Match {
		r, err := s.Recv()
		if err != nil {
			return nil
		}
		return r.GetMatch()
	}
	return e.decide(s.Context(), next, func(id string) { _ = s.Send(&openmatch.EvaluateResponse{MatchId: id}) })
}

// evaluator sets the evaluator of the queue, before servers are started.
func (w *world) evaluator(f decide) {
	w.t.Helper()
	address := w.serve(func(s *grpc.Server) { openmatch.RegisterEvaluatorServer(s, evaluatorService{decide: f}) })
	w.queue.Evaluator = matchmaking.Caller{Kind: callout.EvaluatorGRPC, URL: "http://" + address,
		Timeout: matchmaking.Duration(patience)}
}

// all accepts every proposal when it comes.
func all(_ context.Context, next func() *openmatch.Match, accept func(id string)) error {
	for m := next(); m != nil; m = next() {
		accept(m.GetMatchId())
	}
	return nil
}

// server is one server of the service.
type server struct {
	*backend.Synchronizer
	w       *world
	metrics *counts
	stop    context.CancelFunc // ends Run, and returns when it has ended
}

// server starts a server, which ends with the test.
func (w *world) server() *server { return w.serverAt(w.url) }

// serverAt starts a server at another address of the same Redis.
func (w *world) serverAt(url string) *server {
	w.t.Helper()
	store := w.connect(url)
	functions := callout.NewFunctions(nil)
	m := new(counts)
	s := w.synchronizer(store, functions, m)
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		require.NoError(w.t, <-ended)
		functions.Close()
	})
	w.t.Cleanup(func() {
		stop()
		require.Eventually(w.t, func() bool { return s.Room() == 0 }, patience, time.Millisecond, "room is leaked")
	})
	return &server{Synchronizer: s, w: w, metrics: m, stop: stop}
}

// synchronizer returns a Synchronizer that isn't run.
func (w *world) synchronizer(store backend.Store, functions backend.Functions, m *counts) *backend.Synchronizer {
	w.t.Helper()
	s, err := backend.New(backend.Options{
		Store: store, Functions: functions,
		Evaluator: func(d matchmaking.Definition) (backend.Evaluator, error) { return callout.FetchEvaluator(d, nil) },
		Queue:     func(context.Context, string) (matchmaking.Definition, error) { return w.queue, nil },
		Logger:    slog.New(slog.NewTextHandler(&m.log, nil)), Limits: w.limits, Metrics: m,
	})
	require.NoError(w.t, err)
	return s
}

// counts records what tests wait for.
type counts struct {
	log      lines
	mu       sync.Mutex
	cycles   []backend.CycleCounts
	released int
}

// lines is a log.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (c *counts) Fetched(string, time.Duration, int, error) {}
func (c *counts) Function(string, time.Duration, error)     {}
func (c *counts) Evaluator(string, time.Duration, error)    {}
func (c *counts) Released(_ string, tickets int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.released += tickets
}

func (c *counts) releasedTickets() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.released
}

func (c *counts) cyclesRun() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.cycles)
}

func (c *counts) Cycle(_ string, _ time.Duration, n backend.CycleCounts, _ error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cycles = append(c.cycles, n)
}

// request returns a request with a profile.
func (w *world) request(profile string) backend.FetchRequest {
	text, err := proto.Marshal(&openmatch.MatchProfile{Name: profile})
	require.NoError(w.t, err)
	return backend.FetchRequest{Queue: w.queue.Name, Profile: text, Function: w.mmf}
}

// fetching is a call of Fetch.
type fetching struct {
	t       *testing.T
	cancel  context.CancelFunc
	matches chan *openmatch.Match // unbuffered: the call waits until it is received from
	ended   chan error
}

// fetch begins a call, and returns at once.
func (s *server) fetch(profile string) *fetching { return s.begin(s.w.request(profile)) }

func (s *server) begin(r backend.FetchRequest) *fetching {
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.w.t.Context()))
	f := &fetching{t: s.w.t, cancel: cancel, matches: make(chan *openmatch.Match), ended: make(chan error, 1)}
	go func() {
		f.ended <- s.Fetch(ctx, r, func(m backend.Match) error {
			match := new(openmatch.Match)
			if err := proto.Unmarshal(m.Content, match); err != nil {
				return err
			}
			if m.Created != nil {
				match.Backfill.Id = m.Created.ID
			}
			select {
			case f.matches <- match:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	s.w.t.Cleanup(cancel)
	return f
}

// next returns the ID of the next match.
func (f *fetching) next() string { return f.match().GetMatchId() }

func (f *fetching) match() *openmatch.Match {
	f.t.Helper()
	select {
	case m := <-f.matches:
		return m
	case err := <-f.ended:
		require.FailNow(f.t, "the call has ended", "%v", err)
	case <-time.After(patience):
		require.FailNow(f.t, "no match")
	}
	return nil
}

// rest returns the IDs of all further matches, and the error at the end.
func (f *fetching) rest() (ids []string, err error) {
	f.t.Helper()
	for {
		select {
		case m := <-f.matches:
			ids = append(ids, m.GetMatchId())
		case err := <-f.ended:
			return ids, err
		case <-time.After(patience):
			require.FailNow(f.t, "the call doesn't end")
		}
	}
}

// end returns the error at the end of a call that has no further matches.
func (f *fetching) end() error {
	f.t.Helper()
	ids, err := f.rest()
	require.Empty(f.t, ids)
	return err
}

// tickets creates tickets, and returns them as messages.
func (w *world) tickets(ids ...string) []*openmatch.Ticket {
	w.t.Helper()
	messages := make([]*openmatch.Ticket, len(ids))
	for i, id := range ids {
		_, created, err := w.store.Create(w.t.Context(), matchmaking.CreateRequest{
			Ticket:  matchmaking.Ticket{ID: id, Queue: w.queue.Name, TTL: time.Hour, Life: time.Hour},
			Attempt: ulid.Make().String(), Keep: time.Minute,
		})
		require.NoError(w.t, err)
		require.True(w.t, created)
		messages[i] = &openmatch.Ticket{Id: id}
	}
	return messages
}

// status returns the status of a ticket.
func (w *world) status(id string) matchmaking.Status {
	w.t.Helper()
	ticket, err := w.store.Ticket(w.t.Context(), w.queue.Name, id)
	require.NoError(w.t, err)
	return ticket.Status
}

// awaitStatus waits for a status of a ticket.
func (w *world) awaitStatus(id string, want matchmaking.Status) {
	w.t.Helper()
	require.Eventually(w.t, func() bool { return w.status(id) == want }, patience, 5*time.Millisecond, "%s %s", id, want)
}

func match(id string, tickets ...*openmatch.Ticket) *openmatch.Match {
	return &openmatch.Match{MatchId: id, Tickets: tickets}
}

// await waits for a signal.
func await[T any](t *testing.T, c <-chan T) (value T) {
	t.Helper()
	select {
	case value = <-c:
	case <-time.After(patience):
		require.FailNow(t, "no signal")
	}
	return value
}
