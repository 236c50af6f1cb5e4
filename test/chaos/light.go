package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/pace"
	"github.com/tidemark-dev/tidemark/test/launch"
	"github.com/tidemark-dev/tidemark/test/report"
)

const (
	lightPause = 20 * time.Millisecond
	lightAlone = 2 * time.Second // without an attack, for comparison
	lightBytes = 2000            // more than bodies that need no memory
)

// phase is a part of a scenario beside which a light client works.
type phase int

const (
	preparing phase = iota // its calls aren't measured
	alone
	attacked
	phases
)

// light is a client that publishes 2,000 bytes, fetches, and describes a channel every 20 ms. Its calls are measured
// alone and beside an attack.
type light struct {
	mu     sync.Mutex
	phase  phase
	took   [phases][]time.Duration
	failed int
	last   error // of a failed call
}

// lightResult has the measurements of a light client.
type lightResult struct {
	Alone, Attacked time.Duration // p99 of the calls
	Failed          int
	Last            string // error of a failed call
}

// runLight is the process of a light client of the service at base. It receives the phases, and answers each with what
// it has measured until then.
func runLight(ctx context.Context, base string, in io.Reader, out io.Writer) error {
	addressNetwork = lightNetwork
	c, err := client.New(base, client.WithHTTPClient(&http.Client{Transport: dispersed{&http.Transport{}}}),
		client.WithRetry(client.RetryPolicy{MaxTries: 1}), client.WithTimeout(tryLimit))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l, ended := new(light), make(chan error, 1)
	go func() { ended <- l.run(ctx, c) }()
	if err := launch.Answer(in, out, l.enter); err != nil {
		return err
	}
	cancel()
	return <-ended
}

// enter begins a phase, and returns what the ones before have measured.
func (l *light) enter(p phase) lightResult {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.phase = p
	r := lightResult{Alone: report.Quantile(l.took[alone], 0.99), Attacked: report.Quantile(l.took[attacked], 0.99),
		Failed: l.failed}
	if l.last != nil {
		r.Last = l.last.Error()
	}
	return r
}

// run calls until ctx ends.
func (l *light) run(ctx context.Context, c *client.Client) error {
	const channel, subscriber = "light", "reader"
	if _, err := c.Subscribe(ctx, channel, subscriber, client.Latest); err != nil {
		return err
	}
	receipt, content := "", []byte(`"`+strings.Repeat("x", lightBytes-2)+`"`)
	for ctx.Err() == nil {
		l.measure(ctx, func() error {
			_, err := c.Publish(ctx, channel, client.Draft{Content: content})
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

// startLight starts the light client of a scenario that has a limit for it, and measures it alone. It has a process of
// its own: in the attackers' process it would wait for them, too.
func (s *stage) startLight() {
	if s.limits.Light == 0 {
		return
	}
	ctx, cancel := context.WithCancel(s.Context())
	light, err := launch.StartChild(ctx, "-light", "http://"+s.services[0].HTTP)
	s.Cleanup(cancel)
	s.Must(err)
	s.light = light
	s.enter(alone)
	s.pause(lightAlone)
	s.enter(preparing)
}

// enter begins a phase of the light client, if there is one.
func (s *stage) enter(p phase) {
	if s.light != nil {
		s.Must(s.light.Ask(p, &s.lightSaw))
	}
}

// checkLight ends the light client, and compares its calls with its limits.
func (s *stage) checkLight() {
	if s.light == nil {
		return
	}
	s.enter(preparing)
	if err := s.light.End(); err != nil {
		s.complain("the light client: %v", err)
	}
	r := s.lightSaw
	s.note("light client p99 %s alone, %s beside the attack", report.Millis(r.Alone), report.Millis(r.Attacked))
	if r.Attacked > s.limits.Light {
		s.complain("the light client had a p99 of %s, more than %s", report.WholeMillis(r.Attacked),
			report.WholeMillis(s.limits.Light))
	}
	if s.limits.NoErrors && r.Failed > 0 {
		s.complain("%d calls of the light client failed, the last with: %s", r.Failed, r.Last)
	}
}

// rationed are options with which each address has the limits that a user has by default. The load and the light client
// come by a trusted proxy, with a new address in a header for each request, and attackers from hostileDialer's.
var rationed = []string{"--trust-proxies", "127.0.0.1," + preparer, "--address-limits",
	"requests=100/s,publishedBytes=1MiB/s,waits=100,tickets=60/m,newChannels=60/m,newSubscribers=600/m"}

const (
	forwardedFor = "X-Forwarded-For"
	lightNetwork = 2
)

// addressNetwork is the second number of this process's addresses.
var addressNetwork = 0

// dispersed sends each request as if it came from another address.
type dispersed struct{ http.RoundTripper }

var addresses atomic.Uint32

// nextAddress returns another address than the calls before.
func nextAddress() string {
	n := addresses.Add(1)
	return fmt.Sprintf("10.%d.%d.%d", addressNetwork, n>>8%250, n%250)
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
