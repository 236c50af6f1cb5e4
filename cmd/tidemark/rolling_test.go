package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/test/redistest"
)

// TestRollingRestart replaces a process by another one while clients publish on connections that they keep. They use
// the new process once the old one isn't ready, as a load balancer does. No request fails, and none is retried.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	flags := []string{"--redis", redistest.Start(t, redistest.Options{}).URL(), "--drain-delay", "3s"}
	old := startServer(t, flags...)
	var target atomic.Pointer[string]
	target.Store(&old.url)
	w := publishers{target: &target, stop: make(chan struct{})}
	var workers errgroup.Group
	for i := range 64 {
		workers.Go(func() error {
			err := w.run(i, i%4 == 0)
			w.fail(err)
			return err
		})
	}
	w.await(t, 1000)

	next := startServer(t, flags...)
	require.NoError(t, old.Signal(syscall.SIGTERM))
	eventually(t, func() bool { return !old.ready(t) })
	w.await(t, 200) // on new connections to the old process, which still serves
	target.Store(&next.url)
	<-old.Exited()
	w.await(t, 1000)
	close(w.stop)
	require.NoError(t, workers.Wait())
	require.Zero(t, old.ExitCode())
}

// publishers are clients that publish in a loop.
type publishers struct {
	target *atomic.Pointer[string] // URL of the process to use
	stop   chan struct{}
	mu     sync.Mutex
	sent   int
	err    error // of workers that failed
}

// run publishes until stop is closed, and returns the first failure.
func (p *publishers) run(worker int, http2 bool) error {
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetHTTP1(!http2)
	transport.Protocols.SetUnencryptedHTTP2(http2)
	defer transport.CloseIdleConnections()
	for n := 0; ; n++ {
		select {
		case <-p.stop:
			return nil
		default:
		}
		url := fmt.Sprintf("%s/v1/channels/c%d/messages/m%d", *p.target.Load(), worker, n)
		request, err := http.NewRequest(http.MethodPut, url, strings.NewReader("1"))
		if err != nil {
			return err
		}
		if !http2 {
			request.GetBody = nil // so that the transport doesn't try again, as it may by GOAWAY
		}
		response, err := transport.RoundTrip(request)
		if err != nil {
			return fmt.Errorf("worker %d, publish %d: %w", worker, n, err)
		}
		_, err = io.Copy(io.Discard, response.Body) // so that the connection is kept
		if err := errors.Join(err, response.Body.Close()); err != nil || response.StatusCode != http.StatusCreated {
			return fmt.Errorf("worker %d, publish %d: %s, %w", worker, n, response.Status, err)
		}
		p.mu.Lock()
		p.sent++
		p.mu.Unlock()
	}
}

func (p *publishers) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = errors.Join(p.err, err)
}

func (p *publishers) state() (sent int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sent, p.err
}

// await waits until n more messages are published. It fails when a publisher has failed.
func (p *publishers) await(t *testing.T, more int) {
	t.Helper()
	start, _ := p.state()
	eventually(t, func() bool {
		sent, err := p.state()
		return sent >= start+more || err != nil
	})
	_, err := p.state()
	require.NoError(t, err)
}
