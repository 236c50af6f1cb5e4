package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/pace"
	"github.com/tidemark-dev/tidemark/test/report"
)

const (
	lightPause = 20 * time.Millisecond
	lightAlone = 2 * time.Second // without an attack, for comparison
	lightBytes = 2000            // more than bodies that need no memory
	lightLimit = 100 * time.Millisecond
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
// alone and beside an attack. It has a process of its own: in the attackers' process it would wait for them, too.
type light struct {
	mu     sync.Mutex
	phase  phase
	took   [phases][]time.Duration
	failed int
	last   error // of a failed call
}

// lightResult is the output of a light client's process.
type lightResult struct {
	Alone, Attacked time.Duration // p99 of the calls
	Failed          int           `json:",omitempty"`
	Last            string        `json:",omitempty"` // error of a failed call
}

// runLight is the process of a light client of the service at base. It reads the phases from in, and ends with it.
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
	for {
		var next phase
		if _, err := fmt.Fscanln(in, &next); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		l.enter(next)
	}
	cancel()
	if err := <-ended; err != nil {
		return err
	}
	r := lightResult{Alone: l.p99(alone), Attacked: l.p99(attacked), Failed: l.failed}
	if l.last != nil {
		r.Last = l.last.Error()
	}
	return json.NewEncoder(out).Encode(r)
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

// lightProcess is the process of a light client.
type lightProcess struct {
	cmd    *exec.Cmd
	phases io.WriteCloser
	out    bytes.Buffer
}

// enter begins a phase.
func (l *lightProcess) enter(p phase) error {
	_, err := fmt.Fprintln(l.phases, int(p))
	return err
}

// end ends the process, and returns its result.
func (l *lightProcess) end() (r lightResult, err error) {
	if err := errors.Join(l.phases.Close(), l.cmd.Wait()); err != nil {
		return r, err
	}
	return r, json.Unmarshal(l.out.Bytes(), &r)
}

// startLight starts the light client of a scenario that has a limit for it, and measures it alone.
func (s *stage) startLight() {
	if s.limits.Light == 0 {
		return
	}
	program, err := os.Executable()
	s.Must(err)
	ctx, cancel := context.WithCancel(s.Context())
	url := "http://" + s.services[0].HTTP
	l := &lightProcess{cmd: exec.CommandContext(ctx, program, "-light", url)} //nolint:gosec // this program
	l.cmd.Stdout, l.cmd.Stderr = &l.out, os.Stderr
	l.phases, err = l.cmd.StdinPipe()
	s.Must(err)
	s.Must(l.cmd.Start())
	s.Cleanup(func() {
		cancel()
		_ = l.cmd.Wait() // judgeLight has seen its end, or the scenario failed before
	})
	s.light = l
	s.Must(l.enter(alone))
	s.pause(lightAlone)
	s.Must(l.enter(preparing))
}

// judgeLight ends the light client, and compares its calls with its limits.
func (s *stage) judgeLight() {
	if s.light == nil {
		return
	}
	r, err := s.light.end()
	if err != nil {
		s.complain("the light client: %v", err)
		return
	}
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
var rationed = []string{"--trust-proxies", "127.0.0.1", "--address-limits",
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
