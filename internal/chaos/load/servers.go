package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/chaos/oracle"
	"github.com/tidemark-dev/tidemark/openmatch/openmatchconnect"
)

const (
	tryLimit   = 6 * time.Second // of a try, without intended waiting; more than the service's --redis-timeout
	pollWait   = 2 * time.Second // of long polls
	firstPause = 25 * time.Millisecond
	maxPause   = 500 * time.Millisecond
)

// Servers is a service of several equal servers.
type Servers struct {
	rest     []*client.Client
	frontend []openmatchconnect.FrontendServiceClient
	requests *oracle.Requests
	close    []func()
	unready  []atomic.Bool // servers that the load balancer avoids
}

// Connect returns the servers at base URLs. The caller must call Close at the end.
func Connect(urls []string, requests *oracle.Requests) (*Servers, error) {
	s := &Servers{requests: requests, unready: make([]atomic.Bool, len(urls))}
	for _, url := range urls {
		transport := &http.Transport{MaxIdleConnsPerHost: 1000}
		rest, err := client.New(url, client.WithHTTPClient(&http.Client{Transport: transport}),
			client.WithRetry(client.RetryPolicy{MaxTries: 1}), client.WithTimeout(tryLimit))
		if err != nil {
			return nil, err
		}
		s.rest = append(s.rest, rest)
		grpc := &http.Transport{Protocols: new(http.Protocols), HTTP2: &http.HTTP2Config{PingTimeout: tryLimit, SendPingTimeout: tryLimit}}
		grpc.Protocols.SetUnencryptedHTTP2(true)
		s.frontend = append(s.frontend, openmatchconnect.NewFrontendServiceClient(&http.Client{Transport: grpc}, url, connect.WithGRPC()))
		s.close = append(s.close, transport.CloseIdleConnections, grpc.CloseIdleConnections)
	}
	return s, nil
}

// Close closes all connections. No request may be in progress.
func (s *Servers) Close() {
	for _, f := range s.close {
		f()
	}
}

// SetReady sets whether a server is ready. Clients avoid servers that are not, unless none is.
func (s *Servers) SetReady(server int, yes bool) { s.unready[server].Store(!yes) }

// errRefused is an error that cannot be retried.
var errRefused = errors.New("refused")

// turn selects servers in turn for one client. It is used by one goroutine.
type turn struct {
	servers *Servers
	n       int
}

// newTurn returns a turn that starts at a random server.
func (s *Servers) newTurn() *turn { return &turn{servers: s, n: rand.IntN(len(s.rest))} } //nolint:gosec // no secret

// try calls call with the number of a server until it succeeds, fails with an error that cannot be retried, or ctx ends. Each
// try uses the next server, as behind a load balancer. The error is that of ctx, or wraps errRefused.
func (t *turn) try(ctx context.Context, call func(server int) error) error {
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		t.n++
		err := call(t.pick())
		if err == nil {
			t.servers.requests.Tried("")
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		t.servers.requests.Tried(reason(err))
		if !retryable(err) {
			return fmt.Errorf("%w: %w", errRefused, err)
		}
		if !wait(ctx, pause+rand.N(pause)) { //nolint:gosec // no secret
			return ctx.Err()
		}
	}
}

// pick returns the server whose turn it is.
func (t *turn) pick() int {
	all := len(t.servers.rest)
	for i := range all {
		if server := (t.n + i) % all; !t.servers.unready[server].Load() {
			return server
		}
	}
	return t.n % all
}

// wait waits for d, and reports whether ctx is still alive.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// retryable reports whether another try may succeed.
func retryable(err error) bool {
	var answer *client.Error
	var rpc *connect.Error
	switch {
	case errors.As(err, &answer):
		switch answer.Status {
		case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable,
			http.StatusGatewayTimeout, http.StatusInsufficientStorage:
			return true
		default:
			return false
		}
	case errors.As(err, &rpc):
		switch rpc.Code() {
		case connect.CodeUnavailable, connect.CodeDeadlineExceeded, connect.CodeCanceled, connect.CodeResourceExhausted:
			return true
		default:
			return !connect.IsWireError(err) // the connection broke
		}
	default:
		return errors.Is(err, client.ErrUnreachable)
	}
}

// reason names a failure, for counting.
func reason(err error) string {
	var answer *client.Error
	var rpc *connect.Error
	switch {
	case errors.As(err, &answer):
		return strings.TrimSpace(fmt.Sprintf("%d %s", answer.Status, answer.Slug()))
	case errors.As(err, &rpc):
		return "gRPC " + rpc.Code().String()
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	default:
		return "no connection, or a broken one"
	}
}

// Load is all clients of one run.
type Load struct {
	Servers  *Servers
	Requests *oracle.Requests
	Messages *oracle.Messages
	Tickets  *oracle.Tickets

	running sync.WaitGroup
	busy    atomic.Int64 // publishers and players that have not ended
}

// Wait waits until all clients have ended.
func (l *Load) Wait() { l.running.Wait() }

// Busy returns the number of publishers and players that have not ended.
func (l *Load) Busy() int { return int(l.busy.Load()) }

// work runs a publisher or a player.
func (l *Load) work(do func()) {
	l.busy.Add(1)
	l.running.Go(func() {
		defer l.busy.Add(-1)
		do()
	})
}
