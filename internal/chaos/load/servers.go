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
	tryLimit   = 6 * time.Second // of a try, beside what it waits on purpose: more than the service's --redis-timeout
	pollWait   = 2 * time.Second // of long polls
	firstPause = 25 * time.Millisecond
	maxPause   = 500 * time.Millisecond
)

// Servers is the service as its clients know it: any number of equal servers.
type Servers struct {
	rest     []*client.Client
	frontend []openmatchconnect.FrontendServiceClient
	requests *oracle.Requests
	close    []func()
	unready  []atomic.Bool // servers that a balancer has taken out
}

// Connect returns the servers at the base URLs given. Close must be called in the end.
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

// Close closes all connections. Nothing may be under way.
func (s *Servers) Close() {
	for _, f := range s.close {
		f()
	}
}

// SetReady takes a server out, or back in: clients go to the others from now on, unless there are none.
func (s *Servers) SetReady(server int, yes bool) { s.unready[server].Store(!yes) }

// errRefused is an answer that trying again does not change.
var errRefused = errors.New("refused")

// turn picks servers in turns for one client. It is used by one goroutine.
type turn struct {
	servers *Servers
	n       int
}

// newTurn returns turns that start at any server.
func (s *Servers) newTurn() *turn { return &turn{servers: s, n: rand.IntN(len(s.rest))} } //nolint:gosec // no secret

// try calls what is given with the number of a server until that succeeds, ctx ends, or the service refuses. Every call
// goes to the next server, as behind a load balancer. The error is that of ctx, or errRefused with the answer.
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
		if !passing(err) {
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

// wait returns after d, and reports whether ctx is still alive.
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

// passing reports whether trying again may help.
func passing(err error) bool {
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

// Load is the clients of one run.
type Load struct {
	Servers  *Servers
	Requests *oracle.Requests
	Messages *oracle.Messages
	Tickets  *oracle.Tickets

	running sync.WaitGroup
	busy    atomic.Int64 // publishers and players that have not ended
}

// Wait returns when all clients have ended.
func (l *Load) Wait() { l.running.Wait() }

// Busy returns how many publishers and players have not ended.
func (l *Load) Busy() int { return int(l.busy.Load()) }

// work runs a publisher or a player.
func (l *Load) work(do func()) {
	l.busy.Add(1)
	l.running.Go(func() {
		defer l.busy.Add(-1)
		do()
	})
}
