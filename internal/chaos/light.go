package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/pace"
	"github.com/tidemark-dev/tidemark/internal/report"
)

const (
	lightPause = 20 * time.Millisecond
	lightAlone = 2 * time.Second // without an attack, for comparison
)

// phase is a part of a scenario beside which a light client works.
type phase int

const (
	preparing phase = iota // its calls aren't measured
	alone
	attacked
	phases
)

// light is a client that publishes, fetches and describes a channel of the first service every 20 ms. Its calls are
// measured alone and beside an attack.
type light struct {
	mu     sync.Mutex
	phase  phase
	took   [phases][]time.Duration
	failed int
	last   error // of a failed call
}

// enter begins a phase.
func (l *light) enter(p phase) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.phase = p
}

// run calls until ctx ends.
func (l *light) run(ctx context.Context, c *client.Client) error {
	const channel, subscriber = "light", "reader"
	if _, err := c.Subscribe(ctx, channel, subscriber, client.Latest); err != nil {
		return err
	}
	receipt := ""
	for ctx.Err() == nil {
		l.measure(ctx, func() error {
			_, err := c.Publish(ctx, channel, client.Draft{Content: []byte("1")})
			return err
		})
		l.measure(ctx, func() error {
			d, err := c.Next(ctx, channel, subscriber, receipt, client.FetchOptions{})
			receipt = d.ReceiptHandle
			return err
		})
		l.measure(ctx, func() error {
			_, err := c.Describe(ctx, channel)
			return err
		})
		pace.Sleep(ctx, lightPause) // the loop checks ctx
	}
	return nil
}

// measure measures a call. It belongs to an attack that runs when it begins or when it ends.
func (l *light) measure(ctx context.Context, call func() error) {
	during := l.now()
	started := time.Now()
	err := call()
	took := time.Since(started)
	if ctx.Err() != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if during != attacked {
		during = l.phase
	}
	l.took[during] = append(l.took[during], took)
	if err != nil {
		l.failed, l.last = l.failed+1, err
	}
}

func (l *light) now() phase {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.phase
}

// p99 returns the 99th percentile of the calls of a phase.
func (l *light) p99(p phase) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := slices.Sorted(slices.Values(l.took[p]))
	if len(all) == 0 {
		return 0
	}
	return all[len(all)*99/100]
}

// startLight starts the light client of a scenario that has a limit for it, and measures it alone.
func (s *stage) startLight() {
	if s.limits.Light == 0 {
		return
	}
	transport := &http.Transport{}
	c, err := client.New("http://"+s.services[0].HTTP,
		client.WithHTTPClient(&http.Client{Transport: dispersed{transport}}),
		client.WithRetry(client.RetryPolicy{MaxTries: 1}), client.WithTimeout(tryLimit))
	s.Must(err)
	s.light = new(light)
	ctx, cancel := context.WithCancel(s.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.light.run(ctx, c); err != nil {
			s.complain("the light client: %v", err)
		}
	})
	s.Cleanup(func() {
		cancel()
		running.Wait()
		transport.CloseIdleConnections()
	})
	s.light.enter(alone)
	s.pause(lightAlone)
	s.light.enter(preparing)
}

// judgeLight compares the light client's calls with its limits.
func (s *stage) judgeLight() {
	if s.light == nil {
		return
	}
	before, during := s.light.p99(alone), s.light.p99(attacked)
	s.note("light client p99 %s alone, %s beside the attack", report.Millis(before), report.Millis(during))
	if during > s.limits.Light {
		s.complain("the light client had a p99 of %s, more than %s", report.WholeMillis(during),
			report.WholeMillis(s.limits.Light))
	}
	s.light.mu.Lock()
	defer s.light.mu.Unlock()
	if s.limits.NoErrors && s.light.failed > 0 {
		s.complain("%d calls of the light client failed, the last with: %v", s.light.failed, s.light.last)
	}
}

// rationed are options with which each address has the limits that a user has by default. Clients of a trusted proxy
// have the address in a header: the load and the light client a new one for each request, attackers always the same.
var rationed = []string{"--trust-proxies", "127.0.0.0/8", "--address-limits",
	"requests=100/s,publishedBytes=1MiB/s,waits=100,tickets=60/m,newChannels=60/m,newSubscribers=600/m"}

const (
	forwardedFor    = "X-Forwarded-For"
	attackerAddress = "10.1.0.1"
)

// dispersed sends each request as if it came from another address.
type dispersed struct{ http.RoundTripper }

var addresses atomic.Uint32

// nextAddress returns another address than the calls before.
func nextAddress() string {
	n := addresses.Add(1)
	return fmt.Sprintf("10.0.%d.%d", n>>8%250, n%250)
}

// RoundTrip sends a request.
func (d dispersed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set(forwardedFor, nextAddress())
	return d.RoundTripper.RoundTrip(r)
}

// dispersedCalls are options that do for calls of gRPC as dispersed does for requests.
func dispersedCalls() []grpc.DialOption {
	with := func(ctx context.Context) context.Context {
		return metadata.AppendToOutgoingContext(ctx, forwardedFor, nextAddress())
	}
	return []grpc.DialOption{
		grpc.WithUnaryInterceptor(func(ctx context.Context, method string, in, out any, conn *grpc.ClientConn,
			call grpc.UnaryInvoker, o ...grpc.CallOption) error {
			return call(with(ctx), method, in, out, conn, o...)
		}),
		grpc.WithStreamInterceptor(func(ctx context.Context, d *grpc.StreamDesc, conn *grpc.ClientConn, method string,
			call grpc.Streamer, o ...grpc.CallOption) (grpc.ClientStream, error) {
			return call(with(ctx), d, conn, method, o...)
		}),
	}
}
