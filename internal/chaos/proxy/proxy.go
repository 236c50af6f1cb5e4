// Package proxy is a TCP proxy on loopback that disturbs the connections through it.
package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// Proxy accepts connections and forwards them to a target. Its methods may be called by several goroutines at the same
// time, and hold for connections that are open as well as for later ones.
type Proxy struct {
	listener net.Listener
	links    sync.WaitGroup

	mu      sync.Mutex
	target  string
	open    map[*link]bool
	holding chan struct{} // closed when bytes may pass again; nil: they may
	delay   time.Duration // of every chunk
	rate    int           // bytes a second and direction; 0: no limit
	refuse  bool
}

// link is one connection through the proxy.
type link struct{ client, server net.Conn }

// close resets both sides, so that neither lingers.
func (l *link) close() {
	for _, conn := range []net.Conn{l.client, l.server} {
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // closing is all that is left
		}
		_ = conn.Close()
	}
}

// Listen returns a proxy in front of target, a host:port. Run must be called for it to accept.
func Listen(ctx context.Context, target string) (*Proxy, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return &Proxy{target: target, listener: l, open: map[*link]bool{}}, nil
}

// Addr returns the host:port to connect to.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Run forwards connections until ctx ends. It returns when all of them are closed.
func (p *Proxy) Run(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() { _ = p.listener.Close() })
	defer stop()
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			break
		}
		p.links.Go(func() { p.serve(ctx, conn) })
	}
	p.Pass()
	p.Cut()
	p.links.Wait()
}

func (p *Proxy) serve(ctx context.Context, client net.Conn) {
	var d net.Dialer
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	server, err := d.DialContext(ctx, "tcp", target)
	if err != nil {
		_ = client.Close() // the target is down
		return
	}
	l := &link{client: client, server: server}
	defer l.close()
	if !p.add(ctx, l) {
		return
	}
	defer p.remove(l)
	var copies sync.WaitGroup
	copies.Go(func() { p.copy(ctx, l, server, client) })
	copies.Go(func() { p.copy(ctx, l, client, server) })
	copies.Wait()
}

// add reports whether the connection may stay.
func (p *Proxy) add(ctx context.Context, l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuse || ctx.Err() != nil {
		return false
	}
	p.open[l] = true
	return true
}

func (p *Proxy) remove(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, l)
}

// copy forwards one direction, until either side ends it.
func (p *Proxy) copy(ctx context.Context, l *link, to, from net.Conn) {
	buffer := make([]byte, 16<<10)
	for {
		n, err := from.Read(buffer[:p.chunk()])
		if n > 0 {
			if !p.wait(ctx, n) {
				l.close()
				return
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				l.close()
				return
			}
		}
		if err != nil {
			p.end(l, to, err)
			return
		}
	}
}

// end passes on that one side has sent its last byte, or resets both.
func (p *Proxy) end(l *link, to net.Conn, err error) {
	if tcp, ok := to.(*net.TCPConn); ok && errors.Is(err, io.EOF) {
		if tcp.CloseWrite() == nil {
			return
		}
	}
	l.close()
}

// chunk returns how many bytes to forward at a time: with a limit, a twentieth of a second's.
func (p *Proxy) chunk() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rate == 0 {
		return 16 << 10
	}
	return min(max(p.rate/20, 1), 16<<10)
}

// wait returns when n bytes may pass. It reports whether ctx is still alive.
func (p *Proxy) wait(ctx context.Context, n int) bool {
	p.mu.Lock()
	holding, pause := p.holding, p.delay
	if p.rate > 0 {
		pause += time.Duration(n) * time.Second / time.Duration(p.rate)
	}
	p.mu.Unlock()
	if holding != nil {
		select {
		case <-holding:
		case <-ctx.Done():
			return false
		}
	}
	if pause == 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Cut resets all open connections.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.open {
		l.close()
	}
}

// SetTarget makes the proxy forward new connections to another host:port.
func (p *Proxy) SetTarget(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// Refuse makes the proxy close new connections at once, or not any more.
func (p *Proxy) Refuse(yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = yes
}

// Hold keeps all bytes back until Pass: connections stay open, and neither side hears of the other.
func (p *Proxy) Hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.holding == nil {
		p.holding = make(chan struct{})
	}
}

// Pass forwards the bytes that were kept back, and those that come.
func (p *Proxy) Pass() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.holding != nil {
		close(p.holding)
		p.holding = nil
	}
}

// Slow delays every chunk, and limits the bytes per second of each connection and direction. Zero turns each off.
func (p *Proxy) Slow(delay time.Duration, bytesPerSecond int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay, p.rate = delay, bytesPerSecond
}
