package callout

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/backend"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/callout/jsonhttp"
	"github.com/tidemark-dev/tidemark/internal/openmatch/convert"
	"github.com/tidemark-dev/tidemark/openmatch"
)

// fetchAt returns a request to the function at an address.
func fetchAt(t *testing.T, kind backend.FunctionKind, address string) backend.FetchRequest {
	t.Helper()
	host, port, err := net.SplitHostPort(strings.TrimPrefix(address, "http://"))
	require.NoError(t, err)
	number, err := strconv.Atoi(port)
	require.NoError(t, err)
	profile, err := proto.Marshal(&openmatch.MatchProfile{Name: "ranked", Pools: []*openmatch.Pool{{Name: "eu"}}})
	require.NoError(t, err)
	return backend.FetchRequest{Queue: "duel", Profile: profile,
		Function: backend.Function{Kind: kind, Host: host, Port: number}}
}

// fetchFunctions returns functions until the end of the test.
func fetchFunctions(t *testing.T) *Functions {
	t.Helper()
	f := NewFunctions(nil)
	t.Cleanup(f.Close)
	return f
}

// streaming responds with elements of a stream in Open Match's HTTP transcoding, after it has read the request.
func streaming(handle func(r *http.Request, send func(element string))) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		duplex(handle)(w, r)
	}
}

// duplex is streaming, and reads the request meanwhile.
func duplex(handle func(r *http.Request, send func(element string))) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		_ = control.EnableFullDuplex()
		handle(r, func(element string) {
			_, _ = io.WriteString(w, element+"\n")
			_ = control.Flush()
		})
	}
}

func result1(t *testing.T, m proto.Message) string {
	t.Helper()
	text, err := protojson.Marshal(m)
	require.NoError(t, err)
	return fmt.Sprintf(`{"result":%s}`, text)
}

// TestFetchFunctionsStream holds that a proposal is passed on while the function goes on, over both protocols.
func TestFetchFunctionsStream(t *testing.T) {
	t.Parallel()
	created := time.Unix(1, 2000).UTC()
	first := proposalOf("m1", "a", "b")
	first.Tickets[0].CreateTime = timestamppb.New(created)
	first.Extensions = map[string]*anypb.Any{
		convert.EvaluationInput: packed(t, &openmatch.DefaultEvaluationCriteria{Score: 7.5})}
	first.Backfill = &openmatch.Backfill{Id: "b1", Generation: 3}
	first.AllocateGameserver = true
	for kind, function := range map[backend.FunctionKind]func(on <-chan struct{}) string{
		backend.FunctionGRPC: func(on <-chan struct{}) string {
			return serveFunction(t, func(ctx context.Context, r *openmatch.RunRequest, s runStream) error {
				if r.GetProfile().GetPools()[0].GetName() != "eu" ||
					metadata.ValueFromIncomingContext(ctx, "tidemark-queue")[0] != "duel" {
					return status.Error(codes.InvalidArgument, "wrong request")
				}
				_ = s.Send(&openmatch.RunResponse{Proposal: first})
				<-on
				return s.Send(&openmatch.RunResponse{Proposal: proposalOf("m2")})
			})
		},
		backend.FunctionREST: func(on <-chan struct{}) string {
			return serve(t, streaming(func(r *http.Request, send func(string)) {
				request := new(openmatch.RunRequest)
				body, err := io.ReadAll(r.Body)
				if err != nil || protojson.Unmarshal(body, request) != nil ||
					request.GetProfile().GetPools()[0].GetName() != "eu" || r.URL.Path != "/v1/matchfunction:run" ||
					r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" {
					send(`{"error":{"code":3,"message":"wrong request"}}`)
					return
				}
				send(result1(t, &openmatch.RunResponse{Proposal: first}))
				<-on
				send(result1(t, &openmatch.RunResponse{Proposal: proposalOf("m2")}))
			}))
		},
	} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			on := make(chan struct{})
			var got []backend.Proposal
			err := fetchFunctions(t).Run(t.Context(), fetchAt(t, kind, function(on)), func(p backend.Proposal) error {
				if len(got) == 0 {
					close(on)
				}
				got = append(got, p)
				return nil
			})
			require.NoError(t, err)
			require.Len(t, got, 2)
			sent := new(openmatch.Match)
			require.NoError(t, proto.Unmarshal(got[0].Content, sent))
			require.True(t, proto.Equal(first, sent))
			got[0].Content, got[1].Content = nil, nil
			require.Equal(t, []backend.Proposal{
				{ID: "m1", Score: 7.5, Tickets: []matchmaking.HandOutTicket{{ID: "a", Created: created}, {ID: "b"}},
					Backfill: &matchmaking.MatchBackfill{ID: "b1", Generation: 3}},
				{ID: "m2", Score: math.Inf(-1)},
			}, got)
		})
	}
}

func TestFetchFunctionErrors(t *testing.T) {
	t.Parallel()
	element := func(text string) http.HandlerFunc {
		return streaming(func(_ *http.Request, send func(string)) { send(text) })
	}
	for name, c := range map[string]struct {
		request backend.FetchRequest
		code    codes.Code
		want    string
	}{
		"gRPC": {fetchAt(t, backend.FunctionGRPC, serveFunction(t,
			func(context.Context, *openmatch.RunRequest, runStream) error {
				return status.Error(codes.NotFound, "its own text")
			})), codes.NotFound, "match function: its own text"},
		"gRPC, without a text": {fetchAt(t, backend.FunctionGRPC, serveFunction(t,
			func(context.Context, *openmatch.RunRequest, runStream) error { return status.Error(codes.NotFound, "") })),
			codes.NotFound, "match function: it ended with NotFound"},
		"gRPC, a code of its library": {fetchAt(t, backend.FunctionGRPC, serveFunction(t,
			func(context.Context, *openmatch.RunRequest, runStream) error {
				return status.Error(codes.Internal, "my custom error")
			})), codes.Internal, "match function: it ended with Internal"},
		"no gRPC": {fetchAt(t, backend.FunctionGRPC, servePage(t, "text/html", "my custom page")), codes.Unknown,
			"match function: it ended with Unknown"},
		"no status": {fetchAt(t, backend.FunctionGRPC, servePage(t, "application/grpc", "my custom page")),
			codes.ResourceExhausted, "match function: it ended with ResourceExhausted"},
		"no proposal": {fetchAt(t, backend.FunctionGRPC, serveFunction(t, proposing(nil))), codes.Unknown,
			"match function: a response has no proposal"},
		"unreachable": {fetchAt(t, backend.FunctionGRPC, "127.0.0.1:1"), codes.Unavailable, "connection refused"},
		"HTTP": {fetchAt(t, backend.FunctionREST, serve(t, element(
			`{"error":{"grpcCode":5,"httpCode":404,"message":"my custom error"}}`))), codes.NotFound, "my custom error"},
		"HTTP, later gateways": {fetchAt(t, backend.FunctionREST, serve(t, element(
			`{"error":{"code":9,"message":"my custom error"}}`))), codes.FailedPrecondition, "my custom error"},
		"status": {fetchAt(t, backend.FunctionREST, serve(t, answer(501, "", "no such path"))), codes.Unknown,
			"match function: it answered with status 501"},
		"no JSON": {fetchAt(t, backend.FunctionREST, serve(t, element("hello"))), codes.Unavailable,
			"read the response: "},
		"wrong message": {fetchAt(t, backend.FunctionREST, serve(t, element(`{"result":{"proposal":7}}`))),
			codes.Unavailable, "match function: "},
		"too large": {fetchAt(t, backend.FunctionREST, serve(t, element(
			`{"result":{"proposal":{"matchId":"`+strings.Repeat("x", grpcMessageBytes)+`"}}}`))), codes.Unavailable,
			"an element has over 4194304 bytes"},
		"HTTP, unreachable": {fetchAt(t, backend.FunctionREST, "127.0.0.1:1"), codes.Unavailable, "connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := fetchFunctions(t).Run(t.Context(), c.request, func(backend.Proposal) error { return nil })
			var failure *backend.Failure
			require.ErrorAs(t, err, &failure)
			require.ErrorContains(t, err, c.want)
			require.Equal(t, int(c.code), failure.Code)
			revealsNothing(t, failure)
		})
	}
}

// servePage serves a page over HTTP/2 without TLS, and returns its address.
func servePage(t *testing.T, mediaType, page string) string {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", mediaType)
		_, _ = w.Write([]byte(page))
	}))
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	return s.URL
}

// revealsNothing checks that a caller of FetchMatches isn't told what a service answered that isn't a status of gRPC, or
// which address its name has: it may have named any that the operator allows. The log has both.
func revealsNothing(t *testing.T, failure *backend.Failure) {
	t.Helper()
	for _, secret := range []string{"custom", "no such path", "oh", "hello", "127.0.0.1", "refused"} {
		require.NotContains(t, strings.TrimSuffix(failure.Text, "; the log of the service has more"), secret)
	}
}

func TestFetchFunctionsThatMayNotBeCalled(t *testing.T) {
	t.Parallel()
	targets, err := jsonhttp.ParseTargets([]string{"fn.example.com:9000"})
	require.NoError(t, err)
	f := NewFunctions(targets)
	t.Cleanup(f.Close)
	for _, host := range []string{"fn.example.com", "https://fn.example.com"} {
		require.NoError(t, f.Check(backend.Function{Kind: backend.FunctionGRPC, Host: host, Port: 9000}))
	}
	for want, function := range map[string]backend.Function{
		"provided match function type is not supported": {Kind: "pigeon", Host: "fn.example.com", Port: 9000},
		"the match function other.example.com:9000 is not allowed: see the option callout-allow of the service": {
			Kind: backend.FunctionREST, Host: "other.example.com", Port: 9000},
		"the match function https://other.example.com:9000 is not allowed: see the option callout-allow of the service": {
			Kind: backend.FunctionREST, Host: "https://other.example.com", Port: 9000},
		"the host of the match function isn't a name or an address": {Kind: backend.FunctionREST, Host: "a b", Port: 9},
		"the port of the match function isn't between 1 and 65535":  {Kind: backend.FunctionREST, Host: "a"},
	} {
		err := f.Check(function)
		require.EqualError(t, err, want)
		require.ErrorIs(t, err, &fault.Error{Slug: fault.SlugInvalidRequest})
	}
	// The name may be called, but its address may not.
	loopback, err := jsonhttp.ParseTargets([]string{"localhost"})
	require.NoError(t, err)
	rebound := NewFunctions(loopback)
	t.Cleanup(rebound.Close)
	for _, kind := range []backend.FunctionKind{backend.FunctionGRPC, backend.FunctionREST} {
		r := fetchAt(t, kind, "127.0.0.1:1")
		r.Function.Host = "localhost"
		require.NoError(t, rebound.Check(r.Function))
		require.ErrorContains(t, rebound.Run(t.Context(), r, nil), "is not allowed")
	}
	for _, host := range []string{"127.0.0.1/latest?a=", "127.0.0.1?x", "127.0.0.1#", "127.0.0.1/../a b", "ann@127.0.0.1",
		"https://127.0.0.1/x", "127.0.0.1:80", ""} {
		require.ErrorContains(t, NewFunctions(nil).Check(backend.Function{Kind: backend.FunctionREST, Host: host, Port: 9}),
			"the host of the match function isn't a name or an address", host)
	}
	for _, host := range []string{"127.0.0.1", "::1", "fn", "fn_1.example.com"} {
		require.NoError(t, NewFunctions(nil).Check(backend.Function{Kind: backend.FunctionREST, Host: host, Port: 9}), host)
	}
}

// TestFetchFunctionsUseTLSForHTTPS checks that a host after https:// is called with TLS, and its certificate verified.
func TestFetchFunctionsUseTLSForHTTPS(t *testing.T) {
	t.Parallel()
	certified := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(certified.Close)
	security := credentials.NewTLS(&tls.Config{Certificates: certified.TLS.Certificates, MinVersion: tls.VersionTLS12})
	for kind, url := range map[backend.FunctionKind]string{
		backend.FunctionGRPC: serveFunction(t, proposing(), grpc.Creds(security)),
		backend.FunctionREST: strings.Replace(certified.URL, "https:", "http:", 1),
	} {
		r := fetchAt(t, kind, url)
		r.Function.Host = "https://" + r.Function.Host
		f := fetchFunctions(t)
		require.NoError(t, f.Check(r.Function))
		require.ErrorContains(t, f.Run(t.Context(), r, nil), "x509: certificate signed by unknown authority")
	}
}

// Calls of a function share its connection, and a cancelled call ends.
func TestFetchFunctionIsCancelled(t *testing.T) {
	t.Parallel()
	for kind, function := range map[backend.FunctionKind]func(started, ended chan<- struct{}) string{
		backend.FunctionGRPC: func(started, ended chan<- struct{}) string {
			return serveFunction(t, func(ctx context.Context, _ *openmatch.RunRequest, _ runStream) error {
				started <- struct{}{}
				<-ctx.Done()
				ended <- struct{}{}
				return nil
			})
		},
		backend.FunctionREST: func(started, ended chan<- struct{}) string {
			return serve(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				w.(http.Flusher).Flush()
				started <- struct{}{}
				<-r.Context().Done()
				ended <- struct{}{}
			})
		},
	} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			started, ended := make(chan struct{}), make(chan struct{})
			r := fetchAt(t, kind, function(started, ended))
			f := fetchFunctions(t)
			for range 2 {
				ctx, cancel := context.WithCancelCause(t.Context())
				done := make(chan error)
				go func() { done <- f.Run(ctx, r, nil) }()
				<-started
				cancel(io.ErrNoProgress)
				require.ErrorIs(t, <-done, io.ErrNoProgress)
				<-ended
			}
			if kind == backend.FunctionGRPC {
				require.Len(t, f.conns, 1)
			}
		})
	}
}

// fetchEvaluatorAt returns an evaluator until the end of the test.
func fetchEvaluatorAt(t *testing.T, kind, url string, timeout time.Duration) backend.Evaluator {
	t.Helper()
	e, err := FetchEvaluator(matchmaking.Definition{Name: "duel", Evaluator: matchmaking.Caller{
		Kind: kind, URL: url, Timeout: matchmaking.Duration(timeout)}}, nil)
	require.NoError(t, err)
	t.Cleanup(e.Close)
	return e
}

// serveEcho serves an evaluator that accepts each match when it comes, at both protocols.
func serveEcho(t *testing.T, kind string) string {
	t.Helper()
	if kind == EvaluatorGRPC {
		return serveEvaluator(t, func(_ context.Context, s evalStream) error {
			for {
				r, err := s.Recv()
				if err != nil {
					return nil
				}
				if err := s.Send(&openmatch.EvaluateResponse{MatchId: r.GetMatch().GetMatchId()}); err != nil {
					return err
				}
			}
		})
	}
	return serve(t, duplex(func(r *http.Request, send func(string)) {
		if r.URL.Path != "/v1/evaluator/matches:evaluate" {
			send(`{"error":{"code":12,"message":"wrong path"}}`)
		}
		for lines := bufio.NewScanner(r.Body); lines.Scan(); {
			request := new(openmatch.EvaluateRequest)
			if err := protojson.Unmarshal(lines.Bytes(), request); err != nil {
				send(`{"error":{"code":3,"message":"wrong request"}}`)
				return
			}
			send(result1(t, &openmatch.EvaluateResponse{MatchId: request.GetMatch().GetMatchId()}))
		}
	}))
}

func proposalNamed(t *testing.T, id string) backend.Proposal {
	t.Helper()
	p, err := proposalFrom(proposalOf(id, "ticket of "+id))
	require.NoError(t, err)
	return p
}

// TestFetchEvaluatorsStream holds that an evaluator accepts a match before the next one is proposed.
func TestFetchEvaluatorsStream(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{EvaluatorGRPC, EvaluatorHTTP} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			e := fetchEvaluatorAt(t, kind, serveEcho(t, kind), time.Minute)
			for range 2 {
				proposals, accepted, done := make(chan backend.Proposal), make(chan string), make(chan error)
				go func() {
					done <- e.Evaluate(t.Context(), proposals, func(id string) error {
						accepted <- id
						return nil
					})
				}()
				for _, id := range []string{"m1", "m2", "", "m1"} {
					proposals <- proposalNamed(t, id)
					require.Equal(t, id, <-accepted)
				}
				close(proposals)
				require.NoError(t, <-done)
			}
		})
	}
}

func TestFetchEvaluatorErrors(t *testing.T) {
	t.Parallel()
	failing := serveEvaluator(t, func(context.Context, evalStream) error {
		return status.Error(codes.DataLoss, "its own text")
	})
	idle := serveEvaluator(t, func(ctx context.Context, _ evalStream) error {
		<-ctx.Done()
		return nil
	})
	for name, c := range map[string]struct {
		kind, url string
		timeout   time.Duration
		code      codes.Code
		want      string
	}{
		"gRPC": {EvaluatorGRPC, failing, time.Minute, codes.DataLoss, "evaluator: its own text"},
		"HTTP": {EvaluatorHTTP, serve(t, streaming(func(_ *http.Request, send func(string)) {
			send(`{"error":{"code":15,"message":"my custom error"}}`)
		})), time.Minute, codes.DataLoss, "my custom error"},
		"status":            {EvaluatorHTTP, serve(t, answer(500, "", "oh")), time.Minute, codes.Unknown, "evaluator: it answered with status 500"},
		"unreachable":       {EvaluatorGRPC, "http://127.0.0.1:1", time.Minute, codes.Unavailable, "connection refused"},
		"HTTP, unreachable": {EvaluatorHTTP, "http://127.0.0.1:1", time.Minute, codes.Unavailable, "connection refused"},
		"late": {EvaluatorGRPC, idle, time.Millisecond, codes.DeadlineExceeded,
			"evaluator: no end of its answer within 1ms after the last proposal"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proposals := make(chan backend.Proposal)
			close(proposals)
			err := fetchEvaluatorAt(t, c.kind, c.url, c.timeout).Evaluate(t.Context(), proposals,
				func(string) error { return nil })
			var failure *backend.Failure
			require.ErrorAs(t, err, &failure)
			require.ErrorContains(t, err, c.want)
			require.Equal(t, int(c.code), failure.Code)
			revealsNothing(t, failure)
		})
	}
	// An evaluator that ends at once needs no proposal, and the error of accept ends the call.
	for _, kind := range []string{EvaluatorGRPC, EvaluatorHTTP} {
		proposals := make(chan backend.Proposal, 1)
		proposals <- proposalNamed(t, "m1")
		err := fetchEvaluatorAt(t, kind, serveEcho(t, kind), time.Minute).Evaluate(t.Context(), proposals,
			func(string) error { return &backend.Failure{Text: "not accepted"} })
		require.EqualError(t, err, "not accepted")
	}
}

func TestFetchEvaluatorIsCancelled(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{EvaluatorGRPC, EvaluatorHTTP} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			e := fetchEvaluatorAt(t, kind, serveEcho(t, kind), time.Minute)
			ctx, cancel := context.WithCancelCause(t.Context())
			proposals, accepted, done := make(chan backend.Proposal), make(chan string), make(chan error)
			go func() {
				done <- e.Evaluate(ctx, proposals, func(id string) error {
					accepted <- id
					return nil
				})
			}()
			proposals <- proposalNamed(t, "m1")
			<-accepted
			cancel(io.ErrNoProgress)
			require.ErrorIs(t, <-done, io.ErrNoProgress)
		})
	}
}

func TestDefinitionsOfFetchEvaluators(t *testing.T) {
	t.Parallel()
	e, err := FetchEvaluator(matchmaking.Definition{Evaluator: matchmaking.Caller{Kind: "decollide"}}, nil)
	require.NoError(t, err)
	require.Equal(t, backend.ByScore{}, e)
	targets, err := jsonhttp.ParseTargets(nil)
	require.NoError(t, err)
	_, err = FetchEvaluator(matchmaking.Definition{Evaluator: matchmaking.Caller{Kind: EvaluatorGRPC,
		URL: "http://fn.example.com:9000"}}, targets)
	require.ErrorContains(t, err, "evaluator.url: fn.example.com:9000 is not allowed")
}
