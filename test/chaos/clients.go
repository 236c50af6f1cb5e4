package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/pace"
	"github.com/tidemark-dev/tidemark/test/chaos/oracle"
	"github.com/tidemark-dev/tidemark/test/load"
)

const (
	tryLimit   = 6 * time.Second // of a try, without intended waiting; more than the service's --redis-timeout
	pollWait   = 2 * time.Second // of long polls
	firstPause = 25 * time.Millisecond
	maxPause   = 500 * time.Millisecond
	pingAfter  = 10 * time.Second // as often as the service allows
)

// reconnect is the pause before another attempt to connect to a server.
var reconnect = backoff.Config{BaseDelay: firstPause, Multiplier: 1.6, Jitter: 0.2, MaxDelay: maxPause}

// servers is a service of several equal servers.
type servers struct {
	urls       []string
	transports []http.RoundTripper
	rest       []*client.Client
	frontend   []*load.Frontend
	director   []*load.Director
	requests   *oracle.Requests
	close      []func()
	unready    []atomic.Bool // servers that the load balancer avoids
}

// endpoint is where a server listens.
type endpoint struct {
	URL  string // base URL
	GRPC string // host:port
}

// connect returns the servers at addresses. The caller must call Close at the end.
func connect(addresses []endpoint, requests *oracle.Requests) (*servers, error) {
	s := &servers{requests: requests, unready: make([]atomic.Bool, len(addresses))}
	for i, address := range addresses {
		transport := &http.Transport{MaxIdleConnsPerHost: 1000}
		rest, err := client.New(address.URL, client.WithHTTPClient(&http.Client{Transport: balanced{servers: s, server: i}}),
			client.WithRetry(client.RetryPolicy{MaxTries: 1}), client.WithTimeout(tryLimit))
		if err != nil {
			return nil, err
		}
		s.urls, s.transports = append(s.urls, address.URL), append(s.transports, dispersed{transport})
		s.rest = append(s.rest, rest)
		options := append(dispersedCalls(),
			grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingAfter, Timeout: tryLimit}),
			grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect, MinConnectTimeout: tryLimit}))
		frontend, err := load.DialFrontend(address.GRPC, options...)
		if err != nil {
			return nil, err
		}
		director, err := load.DialDirector(address.GRPC, options...)
		if err != nil {
			return nil, err
		}
		s.frontend, s.director = append(s.frontend, frontend), append(s.director, director)
		s.close = append(s.close, transport.CloseIdleConnections, frontend.Close, director.Close)
	}
	return s, nil
}

// Close closes all connections. No request may be in progress.
func (s *servers) Close() {
	for _, f := range s.close {
		f()
	}
}

// balanced sends each request to a server, or to another one if the load balancer avoids that: a call of the client may
// be several requests.
type balanced struct {
	servers *servers
	server  int
}

// RoundTrip sends a request.
func (b balanced) RoundTrip(r *http.Request) (*http.Response, error) {
	server := b.servers.pick(b.server)
	if server != b.server {
		r = r.Clone(r.Context())
		r.URL.Host, r.Host = strings.TrimPrefix(b.servers.urls[server], "http://"), ""
	}
	return b.servers.transports[server].RoundTrip(r)
}

// SetReady sets whether a server is ready. Clients avoid servers that aren't ready, unless none is.
func (s *servers) SetReady(server int, yes bool) { s.unready[server].Store(!yes) }

// connects reports whether the last attempts to connect to a server for gRPC succeeded. Calls that must not wait fail
// until the next attempt, also if the server has started meanwhile.
func (s *servers) connects(server int) bool {
	frontend, director := s.frontend[server].Connects(), s.director[server].Connects()
	return frontend && director
}

// errRefused is an error that cannot be retried.
var errRefused = errors.New("refused")

// turn selects servers in turn for one client. It is used by one goroutine.
type turn struct {
	servers *servers
	n       int
}

// newTurn returns a turn that starts at a random server.
func (s *servers) newTurn() *turn { return &turn{servers: s, n: rand.IntN(len(s.rest))} } //nolint:gosec // no secret

// try calls call with the number of a server until it succeeds, fails with an error that cannot be retried, or ctx
// ends. Each try uses the next server, as behind a load balancer. The error is that of ctx, or wraps errRefused.
func (t *turn) try(ctx context.Context, call func(server int) error) error {
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		t.n++
		err := call(t.servers.pick(t.n))
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
		if !pace.Sleep(ctx, pause+rand.N(pause)) { //nolint:gosec // no secret
			return ctx.Err()
		}
	}
}

// pick returns a server, or the next one after it that is ready. If none is, it returns the server itself.
func (s *servers) pick(server int) int {
	all := len(s.rest)
	for i := range all {
		if next := (server + i) % all; !s.unready[next].Load() {
			return next
		}
	}
	return server % all
}

// retryable reports whether another try may succeed.
func retryable(err error) bool {
	var answer *client.Error
	switch {
	case errors.As(err, &answer):
		switch answer.Status {
		case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable,
			http.StatusGatewayTimeout, http.StatusInsufficientStorage:
			return true
		default:
			return false
		}
	case errors.Is(err, client.ErrUnreachable):
		return true
	}
	return slices.Contains([]codes.Code{codes.Unavailable, codes.DeadlineExceeded, codes.Canceled,
		codes.ResourceExhausted}, status.Code(err))
}

// isRPC reports whether an error is that of a gRPC call.
func isRPC(err error) bool {
	_, ok := status.FromError(err)
	return ok
}

// reason names a failure, for counting.
func reason(err error) string {
	var answer *client.Error
	switch {
	case errors.As(err, &answer):
		return strings.TrimSpace(fmt.Sprintf("%d %s", answer.Status, answer.Slug()))
	case isRPC(err):
		return "gRPC " + status.Code(err).String()
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	default:
		return "no connection, or a broken one"
	}
}

// clients holds what all clients of one run share.
type clients struct {
	Servers  *servers
	Requests *oracle.Requests
	Messages *oracle.Messages
	Tickets  *oracle.Tickets
	// Producers has no records in a scenario without producers.
	Producers *oracle.Producers

	Streams       atomic.Int64 // tried to open
	StreamsBroken atomic.Int64 // of these: broke, or were refused
	Sockets       atomic.Int64
	SocketsBroken atomic.Int64

	running sync.WaitGroup
	busy    atomic.Int64 // publishers and players that have not ended
}

// Wait waits until all clients have ended.
func (l *clients) Wait() { l.running.Wait() }

// Busy returns the number of publishers and players that have not ended.
func (l *clients) Busy() int { return int(l.busy.Load()) }

// work runs a publisher or a player.
func (l *clients) work(do func()) {
	l.busy.Add(1)
	l.running.Go(func() {
		defer l.busy.Add(-1)
		do()
	})
}
