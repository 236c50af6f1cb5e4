package callout

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tidemark-dev/tidemark/internal/id"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/callout/jsonhttp"
	"github.com/tidemark-dev/tidemark/internal/openmatch/convert"
	"github.com/tidemark-dev/tidemark/internal/tracing/tracingtest"
	"github.com/tidemark-dev/tidemark/openmatch"
)

type (
	runStream  = grpc.ServerStreamingServer[openmatch.RunResponse]
	evalStream = grpc.BidiStreamingServer[openmatch.EvaluateRequest, openmatch.EvaluateResponse]
)

// run implements a MatchFunction, and evaluate an Evaluator, each by one function.
type (
	run      func(context.Context, *openmatch.RunRequest, runStream) error
	evaluate func(context.Context, evalStream) error
)

type functionServer struct {
	openmatch.UnimplementedMatchFunctionServer
	run run
}

func (f functionServer) Run(r *openmatch.RunRequest, s runStream) error {
	return f.run(s.Context(), r, s)
}

type evaluatorServer struct {
	openmatch.UnimplementedEvaluatorServer
	evaluate evaluate
}

func (f evaluatorServer) Evaluate(stream evalStream) error {
	return f.evaluate(stream.Context(), stream)
}

// serveGRPC serves a service until the test ends, and returns its address.
func serveGRPC(t *testing.T, register func(*grpc.Server), options ...grpc.ServerOption) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer(append(options, grpc.WaitForHandlers(true), grpc.MaxRecvMsgSize(64<<20),
		grpc.MaxSendMsgSize(64<<20))...)
	register(server)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		require.NoError(t, <-ended)
	})
	return l.Addr().String()
}

func serveFunction(t *testing.T, f run, options ...grpc.ServerOption) string {
	t.Helper()
	return "http://" +
		serveGRPC(t, func(s *grpc.Server) { openmatch.RegisterMatchFunctionServer(s, functionServer{run: f}) },
			options...)
}

func serveEvaluator(t *testing.T, f evaluate) string {
	t.Helper()
	return "http://" +
		serveGRPC(t, func(s *grpc.Server) { openmatch.RegisterEvaluatorServer(s, evaluatorServer{evaluate: f}) })
}

func grpcMatch(url string) matchmaking.Match {
	return matchmaking.Match{Function: matchmaking.MatchGRPC, URL: url, Teams: 2}
}

func grpcEvaluatorAt(t *testing.T, url string) matchmaking.Evaluator {
	t.Helper()
	return evaluatorOf(t, matchmaking.Caller{Kind: EvaluatorGRPC, URL: url})
}

// proposalOf returns a match in the form of a proposal by Open Match's functions.
func proposalOf(id string, tickets ...string) *openmatch.Match {
	m := &openmatch.Match{MatchId: id, MatchProfile: "ranked", MatchFunction: "mine"}
	for _, ticket := range tickets {
		m.Tickets = append(m.Tickets, &openmatch.Ticket{Id: ticket})
	}
	return m
}

func packed(t *testing.T, m proto.Message) *anypb.Any {
	t.Helper()
	a, err := anypb.New(m)
	require.NoError(t, err)
	return a
}

// proposing returns a function that always proposes the same matches.
func proposing(matches ...*openmatch.Match) run {
	return func(_ context.Context, _ *openmatch.RunRequest, stream runStream) error {
		for _, m := range matches {
			if err := stream.Send(&openmatch.RunResponse{Proposal: m}); err != nil {
				return err
			}
		}
		return nil
	}
}

func TestGRPCFunctionProposes(t *testing.T) {
	t.Parallel()
	first := proposalOf("m1", "a", "b", "c", "d")
	first.Extensions = map[string]*anypb.Any{
		convert.EvaluationInput: packed(t, &openmatch.DefaultEvaluationCriteria{Score: 7.5}),
		"map":                   packed(t, wrapperspb.String("dust")),
	}
	custom := proposalOf("m2", "a")
	custom.Extensions = map[string]*anypb.Any{convert.EvaluationInput: packed(t, wrapperspb.String("mine"))}
	got, queues := make(chan *openmatch.RunRequest, 1), make(chan string, 1)
	url := serveFunction(t, func(ctx context.Context, r *openmatch.RunRequest, stream runStream) error {
		queues <- metadata.ValueFromIncomingContext(ctx, "tidemark-queue")[0]
		got <- r
		return proposing(first, custom, proposalOf("", "c", "b", "d"))(ctx, r, stream)
	})
	waiting := pools()
	profile := matchmaking.Profile{Name: "ranked", Pools: []matchmaking.Pool{{
		Name: "eu", DoubleRanges: []matchmaking.DoubleRange{{DoubleArg: "skill", Min: 1, Max: math.Inf(1),
			Exclude: matchmaking.ExcludeMin}},
	}}}
	result, err := function(t, grpcMatch(url)).Match(t.Context(), profile, waiting)
	require.NoError(t, err)
	require.Len(t, result, 3)
	require.Equal(t, "m1", result[0].ID)
	require.Equal(t, [][]string{{"a", "c"}, {"b", "d"}}, teamsOf(result[0]))
	require.Same(t, waiting["first"][0], result[0].Teams[0][0])
	require.InDelta(t, 7.5, result[0].Score, 0)
	require.JSONEq(t, `{"@type":"type.googleapis.com/google.protobuf.StringValue","value":"dust"}`,
		string(result[0].Extensions["map"]))
	require.Equal(t, [][]string{{"a"}}, teamsOf(result[1]))
	require.Zero(t, result[1].Score)
	require.Empty(t, result[2].ID, "the director makes one")
	require.Equal(t, [][]string{{"c", "d"}, {"b"}}, teamsOf(result[2]))

	request := <-got
	require.Equal(t, "duel", <-queues)
	sent := request.GetProfile()
	require.Equal(t, "ranked", sent.GetName())
	require.Len(t, sent.GetPools(), 1)
	filter := sent.GetPools()[0].GetDoubleRangeFilters()[0]
	require.Equal(t, openmatch.DoubleRangeFilter_MIN, filter.GetExclude())
	require.True(t, math.IsInf(filter.GetMax(), 1))
	var queue wrapperspb.StringValue
	require.NoError(t, sent.GetExtensions()["tidemark.queue"].UnmarshalTo(&queue))
	require.Equal(t, "duel", queue.GetValue())
}

func TestGRPCFunctionWithoutPoolsGetsTheQueues(t *testing.T) {
	t.Parallel()
	got := make(chan *openmatch.MatchProfile, 1)
	url := serveFunction(t, func(_ context.Context, r *openmatch.RunRequest, _ runStream) error {
		got <- r.GetProfile()
		return nil
	})
	result, err := function(t, grpcMatch(url)).Match(t.Context(), matchmaking.Profile{},
		map[string][]*matchmaking.Ticket{"all": ticketsNamed("a")})
	require.NoError(t, err)
	require.Empty(t, result)
	sent := <-got
	require.Equal(t, "duel", sent.GetName())
	require.Len(t, sent.GetPools(), 1)
	require.Equal(t, "all", sent.GetPools()[0].GetName())
}

func TestGRPCFunctionTeams(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		teams int
		want  [][]string
	}{
		{0, [][]string{{"a", "b", "c"}}},
		{1, [][]string{{"a", "b", "c"}}},
		{2, [][]string{{"a", "c"}, {"b"}}},
		{5, [][]string{{"a"}, {"b"}, {"c"}}},
	} {
		m := grpcMatch(serveFunction(t, proposing(proposalOf("m", "a", "b", "c"))))
		m.Teams = c.teams
		result, err := function(t, m).Match(t.Context(), matchmaking.Profile{}, pools())
		require.NoError(t, err)
		require.Equal(t, c.want, teamsOf(result[0]))
	}
}

func TestGRPCFunctionIgnoresMatchesWithMissingTickets(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	url := serveFunction(t, proposing(proposalOf("m1", "a", "gone"), proposalOf("m2", "a", "b")))
	f, err := Function(matchmaking.Definition{Name: "duel", Match: grpcMatch(url)},
		slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})), nil)
	require.NoError(t, err)
	result, err := f.Match(t.Context(), matchmaking.Profile{}, pools())
	require.NoError(t, err)
	require.Len(t, result, 1)
	require.Equal(t, "m2", result[0].ID)
	require.Contains(t, log.String(), "level=DEBUG")
	require.Contains(t, log.String(), "queue=duel match=m1 ticket=gone")
}

func TestGRPCFunctionInvalidResponse(t *testing.T) {
	t.Parallel()
	malformed := proposalOf("m1", "a")
	malformed.Extensions = map[string]*anypb.Any{convert.EvaluationInput: {
		TypeUrl: "type.googleapis.com/openmatch.DefaultEvaluationCriteria", Value: []byte{9},
	}}
	backfill := proposalOf("m1", "a")
	backfill.Backfill = &openmatch.Backfill{}
	large := proposalOf("m1", "a", strings.Repeat("x", grpcMessageBytes))
	for name, c := range map[string]struct {
		matches []*openmatch.Match
		want    string
	}{
		"no tickets":      {[]*openmatch.Match{proposalOf("m1")}, `match "m1" has no teams`},
		"nothing":         {[]*openmatch.Match{nil}, `match "" has no teams`},
		"malformed score": {[]*openmatch.Match{malformed}, `match "m1": extensions.evaluation_input: `},
		"backfill":        {[]*openmatch.Match{backfill}, `match "m1" has a backfill`},
		"too large":       {[]*openmatch.Match{large}, "code = ResourceExhausted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result, err := function(t, grpcMatch(serveFunction(t, proposing(c.matches...)))).Match(t.Context(),
				matchmaking.Profile{}, pools())
			require.ErrorContains(t, err, "call the match function of queue duel: ")
			require.ErrorContains(t, err, c.want)
			require.Empty(t, result)
		})
	}
}

func TestGRPCFunctionResponseLimit(t *testing.T) {
	t.Parallel()
	url := serveFunction(t, func(_ context.Context, _ *openmatch.RunRequest, stream runStream) error {
		m := proposalOf("", "gone", strings.Repeat("x", 400))
		for {
			if err := stream.Send(&openmatch.RunResponse{Proposal: m}); err != nil {
				return err
			}
		}
	})
	f := function(t, grpcMatch(url)).(*grpcFunction)
	require.Equal(t, responseBytes, f.limit)
	f.limit = 1000
	_, err := f.Match(t.Context(), matchmaking.Profile{}, pools())
	require.ErrorIs(t, err, jsonhttp.ErrTooLarge)
}

func TestGRPCFunctionFails(t *testing.T) {
	t.Parallel()
	url := serveFunction(t, func(ctx context.Context, r *openmatch.RunRequest, stream runStream) error {
		if err := proposing(proposalOf("m1", "a", "b"))(ctx, r, stream); err != nil {
			return err
		}
		return status.Error(codes.Unavailable, "no memory left")
	})
	result, err := function(t, grpcMatch(url)).Match(t.Context(), matchmaking.Profile{}, pools())
	require.ErrorContains(t, err,
		"call the match function of queue duel: rpc error: code = Unavailable desc = no memory left")
	require.Empty(t, result)
}

func TestGRPCFunctionUnreachable(t *testing.T) {
	t.Parallel()
	_, err := function(t, grpcMatch("http://user:hush@127.0.0.1:1/?token=hush")).Match(t.Context(),
		matchmaking.Profile{}, pools())
	require.ErrorContains(t, err, "connection refused")
	require.NotContains(t, err.Error(), "hush", "it is logged")
	_, err = function(t, grpcMatch(serve(t, http.NotFound))).Match(t.Context(), matchmaking.Profile{}, pools())
	require.ErrorContains(t, err, "call the match function of queue duel: ")
}

func TestGRPCUsesTLSForHTTPS(t *testing.T) {
	t.Parallel()
	certified := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate
	t.Cleanup(certified.Close)
	security := credentials.NewTLS(&tls.Config{Certificates: certified.TLS.Certificates, MinVersion: tls.VersionTLS12})
	url := strings.Replace(serveFunction(t, proposing(), grpc.Creds(security)), "http:", "https:", 1)
	_, err := function(t, grpcMatch(url)).Match(t.Context(), matchmaking.Profile{}, pools())
	require.ErrorContains(t, err, "x509: certificate signed by unknown authority")
	_, err = function(t, grpcMatch(strings.Replace(url, "https:", "http:", 1))).Match(t.Context(),
		matchmaking.Profile{}, pools())
	require.Error(t, err)
}

// TestGRPCFunctionOfAURL checks that a URL with a path and credentials calls the methods below it.
func TestGRPCFunctionOfAURL(t *testing.T) {
	t.Parallel()
	calls := make(chan []string, 1)
	url := serveFunction(t, proposing(), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		method, _ := grpc.MethodFromServerStream(stream)
		calls <- append([]string{method}, metadata.ValueFromIncomingContext(stream.Context(), "authorization")...)
		return stream.RecvMsg(new(openmatch.RunRequest))
	}))
	_, err := function(t, grpcMatch(strings.Replace(url, "//", "//ann:secret@", 1)+"/base/")).Match(t.Context(),
		matchmaking.Profile{}, pools())
	require.NoError(t, err)
	require.Equal(t, []string{"/base/openmatch.MatchFunction/Run", "Basic YW5uOnNlY3JldA=="}, <-calls)
}

func TestGRPCFunctionTimeout(t *testing.T) {
	t.Parallel()
	url := serveFunction(t, func(ctx context.Context, _ *openmatch.RunRequest, _ runStream) error {
		<-ctx.Done()
		return ctx.Err()
	})
	m := grpcMatch(url)
	m.Timeout = matchmaking.Duration(50 * time.Millisecond)
	_, err := function(t, m).Match(t.Context(), matchmaking.Profile{}, pools())
	require.ErrorIs(t, err, jsonhttp.ErrTimeout)

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = function(t, grpcMatch(url)).Match(ctx, matchmaking.Profile{}, pools())
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// accepting returns an evaluator that reads all matches and then accepts some.
func accepting(ids ...string) evaluate {
	return func(_ context.Context, stream evalStream) error {
		for {
			if _, err := stream.Recv(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return err
			}
		}
		for _, id := range ids {
			if err := stream.Send(&openmatch.EvaluateResponse{MatchId: id}); err != nil {
				return err
			}
		}
		return nil
	}
}

func TestGRPCEvaluatorChooses(t *testing.T) {
	t.Parallel()
	got := make(chan *openmatch.Match, 8)
	var queue string
	url := serveEvaluator(t, func(ctx context.Context, stream evalStream) error {
		queue = metadata.ValueFromIncomingContext(ctx, "tidemark-queue")[0]
		for {
			r, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return err
			}
			got <- r.GetMatch()
		}
		close(got)
		return accepting("m3", "m1")(ctx, stream)
	})
	proposals := proposed3()
	proposals[1].Score = 0
	proposals[2].Extensions = map[string]json.RawMessage{
		convert.EvaluationInput: json.RawMessage(
			`{"@type":"type.googleapis.com/google.protobuf.StringValue","value":"mine"}`),
	}
	accepted, err := grpcEvaluatorAt(t, url).Evaluate(t.Context(), proposals)
	require.NoError(t, err)
	require.Equal(t, []matchmaking.Proposal{proposals[2], proposals[0]}, accepted)
	require.Equal(t, "duel", queue)

	var inputs []proto.Message
	for m := range got {
		require.Equal(t, "duel", m.GetMatchProfile())
		require.Len(t, m.GetTickets(), 2)
		input, err := m.GetExtensions()[convert.EvaluationInput].UnmarshalNew()
		require.NoError(t, err)
		inputs = append(inputs, input)
	}
	for i, want := range []proto.Message{
		&openmatch.DefaultEvaluationCriteria{Score: 1}, &openmatch.DefaultEvaluationCriteria{},
		wrapperspb.String("mine"),
	} {
		require.True(t, proto.Equal(want, inputs[i]), i)
	}
}

func TestGRPCEvaluatorRespondsWhileItReceives(t *testing.T) {
	t.Parallel()
	url := serveEvaluator(t, func(_ context.Context, stream evalStream) error {
		for {
			r, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
			if err := stream.Send(&openmatch.EvaluateResponse{MatchId: r.GetMatch().GetMatchId()}); err != nil {
				return err
			}
		}
	})
	proposals := make([]matchmaking.Proposal, 300)
	for i := range proposals {
		name := strings.Repeat("x", 50) + string(rune('a'+i%26)) + time.Duration(i).String()
		proposals[i] = matchmaking.Proposal{ID: id.New(), Teams: [][]*matchmaking.Ticket{ticketsNamed(name)}}
	}
	accepted, err := grpcEvaluatorAt(t, url).Evaluate(t.Context(), proposals)
	require.NoError(t, err)
	require.Len(t, accepted, len(proposals))
}

func TestGRPCEvaluatorEndsEarly(t *testing.T) {
	t.Parallel()
	url := serveEvaluator(t, func(_ context.Context, stream evalStream) error {
		return stream.Send(&openmatch.EvaluateResponse{MatchId: "m1"})
	})
	proposals := proposed3()
	proposals[2].Extensions = map[string]json.RawMessage{"large": json.RawMessage(`"` + strings.Repeat("x", 8<<20) +
		`"`)}
	accepted, err := grpcEvaluatorAt(t, url).Evaluate(t.Context(), proposals)
	require.NoError(t, err)
	require.Equal(t, proposals[:1], accepted)
}

func TestGRPCEvaluatorInvalidResponse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		f    evaluate
		want string
	}{
		"too many": {accepting("m1", "m1", "m1", "m1"), "more matches accepted than proposed"},
		"fails": {func(context.Context, evalStream) error {
			return status.Error(codes.Internal, "oh")
		}, "call the evaluator of queue duel: rpc error: code = Internal desc = oh"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			accepted, err := grpcEvaluatorAt(t, serveEvaluator(t, c.f)).Evaluate(t.Context(), proposed3())
			require.ErrorContains(t, err, c.want)
			require.Empty(t, accepted)
		})
	}
}

func TestGRPCEvaluatorTimeout(t *testing.T) {
	t.Parallel()
	url := serveEvaluator(t, func(ctx context.Context, _ evalStream) error {
		<-ctx.Done()
		return ctx.Err()
	})
	hasty := evaluatorOf(t, matchmaking.Caller{Kind: EvaluatorGRPC, URL: url,
		Timeout: matchmaking.Duration(50 * time.Millisecond)})
	_, err := hasty.Evaluate(t.Context(), proposed3())
	require.ErrorIs(t, err, jsonhttp.ErrTimeout)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = grpcEvaluatorAt(t, url).Evaluate(ctx, proposed3())
	require.ErrorIs(t, err, context.Canceled)
	_, err = grpcEvaluatorAt(t, "http://127.0.0.1:1").Evaluate(t.Context(), proposed3())
	require.ErrorContains(t, err, "connection refused")
}

// TestTargetsOfGRPC tests that targets are checked when the function is called.
func TestTargetsOfGRPC(t *testing.T) {
	t.Parallel()
	url := serveFunction(t, proposing(proposalOf("m", "a", "b")))
	named := strings.Replace(url, "127.0.0.1", "localhost", 1)
	for pattern, works := range map[string]bool{"localhost": false, "127.0.0.1": true} {
		targets, err := jsonhttp.ParseTargets([]string{"localhost", pattern})
		require.NoError(t, err)
		d := matchmaking.Definition{Name: "duel", Match: grpcMatch(named)}
		f, err := Function(d, slog.New(slog.DiscardHandler), targets)
		require.NoError(t, err)
		_, err = f.Match(t.Context(), matchmaking.Profile{}, pools())
		require.Equal(t, works, err == nil, "%s: %v", pattern, err)
		if !works {
			require.ErrorContains(t, err, "is not allowed for a queue created at run time")
		}
	}
}

// Calls over gRPC have spans of the round that makes them, and services get their traceparent. Without a trace they get
// none.
func TestGRPCCallsAreTraced(t *testing.T) {
	t.Parallel()
	parents := make(chan []string, 2)
	keep := func(ctx context.Context) { parents <- metadata.ValueFromIncomingContext(ctx, "traceparent") }
	f := function(t, grpcMatch(serveFunction(t, func(ctx context.Context, _ *openmatch.RunRequest, _ runStream) error {
		keep(ctx)
		return nil
	})))
	e := grpcEvaluatorAt(t, serveEvaluator(t, func(ctx context.Context, _ evalStream) error {
		keep(ctx)
		return status.Error(codes.NotFound, "gone")
	}))
	call := func(ctx context.Context) {
		_, err := f.Match(ctx, matchmaking.Profile{Name: "ranked"}, pools())
		require.NoError(t, err)
		_, err = e.Evaluate(ctx, proposed3())
		require.ErrorContains(t, err, "gone")
	}
	call(t.Context())
	require.Empty(t, <-parents)
	require.Empty(t, <-parents)

	sent := tracingtest.Start(t)
	tracer := sent.Tracer(t)
	ctx, round := tracer.Serve(t.Context(), nil, "round")
	call(ctx)
	round.End()
	tracer.Close(t.Context())
	trace := sent.Named(t, "round", "")
	for _, member := range []struct{ method, status string }{
		{"openmatch.MatchFunction/Run", "OK"}, {"openmatch.Evaluator/Evaluate", "NOT_FOUND"},
	} {
		span := sent.Named(t, member.method, trace.Trace)
		require.Equal(t, []string{span.Traceparent()}, <-parents)
		require.Equal(t, trace.Span, span.Parent)
		require.Equal(t, member.status != "OK", span.Failed)
		want := map[string]string{"rpc.system.name": "grpc", "rpc.method": member.method, "tidemark.queue": "duel",
			"rpc.response.status_code": member.status}
		if span.Failed {
			want["error.type"] = member.status
		}
		require.Equal(t, want, span.Attributes)
	}
}
