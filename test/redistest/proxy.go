package redistest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/test/proxy"
)

// Proxy is a proxy in front of a server, which records the commands that clients send.
type Proxy struct {
	*proxy.Proxy

	mu       sync.Mutex
	commands [][]string
	arrived  chan struct{} // buffered (capacity 1): commands has grown
}

// NewProxy starts a proxy in front of a server without TLS. It ends with the test.
func NewProxy(t testing.TB, n *Node) *Proxy {
	t.Helper()
	ctx, background := lifetime(t)
	tcp, err := proxy.NewRedis(ctx, n.Addr())
	if err != nil {
		t.Fatalf("redistest: start a proxy: %v", err)
	}
	p := &Proxy{Proxy: tcp, arrived: make(chan struct{}, 1)}
	p.Observe(p.record)
	background(p.Run)
	return p
}

// lifetime returns a context that is cancelled when the test has ended, and a function that calls others in the
// background with it. The test ends when they have returned.
func lifetime(t testing.TB) (ctx context.Context, background func(func(context.Context))) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return ctx, func(run func(context.Context)) { running.Go(func() { run(ctx) }) }
}

// record keeps a command unless it sets up a connection or keeps it alive.
func (p *Proxy) record(command []string) {
	if slices.Contains([]string{"HELLO", "CLIENT", "PING"}, command[0]) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.commands = append(p.commands, command)
	select {
	case p.arrived <- struct{}{}:
	default:
	}
}

// Sent returns the recorded commands after the first n. Their names are in upper case.
func (p *Proxy) Sent(n int) [][]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.commands[n:])
}

// Count returns the number of recorded commands.
func (p *Proxy) Count() int { return len(p.Sent(0)) }

// AwaitSent waits until enough holds of the commands after the first n. Only one goroutine may call it at a time.
func (p *Proxy) AwaitSent(t testing.TB, n int, enough func(commands [][]string) bool) {
	t.Helper()
	limit := time.After(doLimit)
	for !enough(p.Sent(n)) {
		select {
		case <-p.arrived:
		case <-limit:
			t.Fatalf("redistest: the commands never came; got %.200v", p.Sent(n))
		}
	}
}
