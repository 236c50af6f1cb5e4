package callout

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/backend"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/callout/jsonhttp"
	"github.com/tidemark-dev/tidemark/internal/openmatch/convert"
	"github.com/tidemark-dev/tidemark/internal/redact"
	"github.com/tidemark-dev/tidemark/openmatch"
)

// maxStatusText is how many bytes of the text of a service's status callers get.
const maxStatusText = 512

// maxConns limits the functions whose connections are kept for the next call. An unused connection closes by itself.
const maxConns = 256

// Functions calls the match functions that callers of FetchMatches name, over gRPC and over Open Match's HTTP
// transcoding. It may be used by many goroutines.
type Functions struct {
	targets *jsonhttp.Targets
	http    *jsonhttp.Client

	mu    sync.Mutex
	conns map[string]*sharedConn
}

// sharedConn is a connection to a function. It is closed when it is no longer kept and no call uses it.
type sharedConn struct {
	*grpc.ClientConn
	uses int // calls, and one while it is kept
}

var _ backend.Functions = (*Functions)(nil)

// NewFunctions returns functions of which targets may be called, or any if targets is nil. Close it.
func NewFunctions(targets *jsonhttp.Targets) *Functions {
	return &Functions{targets: targets, http: jsonhttp.New(targets, 0, responseBytes), conns: map[string]*sharedConn{}}
}

// Close closes the connections that no call uses. Those of calls in progress are closed when these end.
func (f *Functions) Close() {
	f.http.CloseIdle()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dropAll()
}

// dropAll stops keeping all connections. The caller holds mu.
func (f *Functions) dropAll() {
	for _, conn := range f.conns {
		f.drop(conn)
	}
	clear(f.conns)
}

// drop ends one use of a connection. The caller holds mu.
func (f *Functions) drop(conn *sharedConn) {
	if conn.uses--; conn.uses == 0 {
		_ = conn.Close()
	}
}

// urlOf returns a function's URL. A host that begins with https:// is called with TLS.
func urlOf(f backend.Function) string {
	scheme, host := "http://", f.Host
	if name, secure := strings.CutPrefix(host, "https://"); secure {
		scheme, host = "https://", name
	}
	return scheme + net.JoinHostPort(host, strconv.Itoa(f.Port))
}

// isHostAndPort reports whether a function's URL has its host and port, and nothing that the host has smuggled into it.
func isHostAndPort(f backend.Function, text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Hostname() == strings.TrimPrefix(f.Host, "https://") && u.Port() == strconv.Itoa(f.Port)
}

// Check returns an error unless a function may be called.
func (f *Functions) Check(target backend.Function) error {
	refused := func(field, detail string) error {
		return &fault.Error{Kind: fault.Invalid, Slug: fault.SlugInvalidRequest, Field: "config." + field, Detail: detail}
	}
	address := urlOf(target)
	switch {
	case target.Kind != backend.FunctionGRPC && target.Kind != backend.FunctionREST: // Open Match's text
		return refused("type", "provided match function type is not supported")
	case target.Port < 1 || target.Port > math.MaxUint16:
		return refused("port", "the port of the match function isn't between 1 and 65535")
	case !isHostAndPort(target, address) || (*jsonhttp.Targets)(nil).Check(address) != nil:
		return refused("host", "the host of the match function isn't a name or an address")
	case f.targets.Check(address) != nil:
		return refused("host", "the match function "+strings.TrimPrefix(address, "http://")+
			" is not allowed: see the option callout-allow of the service")
	}
	return nil
}

// Run calls a function.
func (f *Functions) Run(ctx context.Context, r backend.FetchRequest, propose func(backend.Proposal) error) error {
	profile := new(openmatch.MatchProfile)
	if err := proto.Unmarshal(r.Profile, profile); err != nil {
		return err
	}
	request := &openmatch.RunRequest{Profile: profile}
	add := func(m *openmatch.Match) error {
		p, err := proposalFrom(m)
		if err != nil {
			return err
		}
		return propose(p)
	}
	if r.Function.Kind == backend.FunctionREST {
		return f.runHTTP(ctx, urlOf(r.Function), request, add)
	}
	return f.runGRPC(ctx, urlOf(r.Function), r.Queue, request, add)
}

func (f *Functions) runGRPC(ctx context.Context, url, queue string, request *openmatch.RunRequest,
	add func(*openmatch.Match) error) error {
	conn, done, err := f.connect(url)
	if err != nil {
		return err
	}
	defer done()
	err = runFunction(ctx, conn, queue, request, func(r *openmatch.RunResponse) error { return add(r.GetProposal()) })
	return failureOf(ctx, "match function", err)
}

// connect returns a connection to a function, and the function that ends its use.
func (f *Functions) connect(url string) (*grpc.ClientConn, func(), error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	conn := f.conns[url]
	if conn == nil {
		dialed, err := dialGRPC(url, f.targets)
		if err != nil {
			return nil, nil, err
		}
		if len(f.conns) == maxConns {
			f.dropAll()
		}
		conn = &sharedConn{ClientConn: dialed, uses: 1}
		f.conns[url] = conn
	}
	conn.uses++
	return conn.ClientConn, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.drop(conn)
	}, nil
}

func (f *Functions) runHTTP(ctx context.Context, url string, request *openmatch.RunRequest,
	add func(*openmatch.Match) error) error {
	text, err := protojson.Marshal(request)
	if err != nil {
		return err
	}
	answer, err := f.http.Stream(ctx, url+"/v1/matchfunction:run", bytes.NewReader(text))
	if err != nil {
		return failureOf(ctx, "match function", err)
	}
	defer func() { _ = answer.Close() }()
	err = eachResult(answer, func(text []byte) error {
		response := new(openmatch.RunResponse)
		if err := decode.Unmarshal(text, response); err != nil {
			return err
		}
		return add(response.GetProposal())
	})
	return failureOf(ctx, "match function", err)
}

// proposalFrom returns a function's match as a proposal.
func proposalFrom(m *openmatch.Match) (p backend.Proposal, err error) {
	if m == nil {
		return p, &backend.Failure{Code: backend.CodeUnknown, Text: "match function: a response has no proposal"}
	}
	p.ID, p.Score = m.GetMatchId(), math.Inf(-1)
	if p.Content, err = proto.Marshal(m); err != nil {
		return p, err
	}
	for _, t := range m.GetTickets() {
		ticket := matchmaking.HandOutTicket{ID: t.GetId()}
		if t.GetCreateTime().IsValid() {
			ticket.Created = t.GetCreateTime().AsTime()
		}
		p.Tickets = append(p.Tickets, ticket)
	}
	if input := m.GetExtensions()[convert.EvaluationInput]; input != nil {
		criteria := new(openmatch.DefaultEvaluationCriteria)
		p.Unrankable = input.UnmarshalTo(criteria) != nil
		p.Score = criteria.GetScore()
	}
	if b := m.GetBackfill(); b != nil {
		p.Backfill = &matchmaking.MatchBackfill{ID: b.GetId(), Generation: b.GetGeneration(),
			Spec: convert.ToBackfillSpec(b)}
	}
	return p, nil
}

// failureOf returns the failure of a call of a function or an evaluator, or the cause of ctx if that has ended. Errors
// of the caller's own functions are returned as they are. The text for the caller is that of the status with which a
// service of gRPC ended the call. Otherwise it has the kind of the failure only: the caller names the address that is
// called, and must not read what is there.
func failureOf(ctx context.Context, what string, err error) error {
	var failure *backend.Failure
	var clientErr *fault.Error
	switch {
	case err == nil, errors.As(err, &failure), errors.As(err, &clientErr):
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	var ended *serviceError
	if errors.As(err, &ended) {
		s := ended.GRPCStatus()
		text := redact.Cut(strings.ToValidUTF8(s.Message(), "\uFFFD"), maxStatusText)
		return &backend.Failure{Code: int(s.Code()), Text: what + ": " + text, Detail: s.Code().String()}
	}
	failed := func(code int, kind string) error {
		return &backend.Failure{Code: code, Text: what + ": " + kind + "; the log of the service has more",
			Detail: err.Error()}
	}
	if s, ok := status.FromError(err); ok {
		return failed(int(s.Code()), "it ended with "+s.Code().String())
	}
	var answered *jsonhttp.StatusError
	if errors.As(err, &answered) {
		return failed(backend.CodeUnknown, fmt.Sprintf("it answered with status %d", answered.Status))
	}
	return failed(backend.CodeUnavailable, "it can't be reached, or its answer can't be read")
}
