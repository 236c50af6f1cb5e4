// Package proxy is a TCP proxy on loopback, with which tests disturb connections.
//
// New forwards bytes of any protocol. NewRedis forwards Redis commands and replies one by one, so that a test can
// record the commands (see Proxy.Observe) and replace replies (see Proxy.Fail).
//
// Methods may be called by several goroutines at the same time. They affect open connections and later ones alike.
package proxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// Proxy accepts connections and forwards them to a target.
type Proxy struct {
	listener net.Listener
	links    sync.WaitGroup
	redis    bool
	hooks    hooks

	mu     sync.Mutex
	target string
	open   map[*link]bool
	faults faults
}

// Direction is one direction of the traffic through a Proxy.
type Direction int

// Both directions.
const (
	ToServer Direction = iota
	ToClient
)

// faults are the current disturbances of a Proxy.
type faults struct {
	held   [2]chan struct{} // of each direction: closed when bytes may pass again; nil: they may
	delay  time.Duration    // of every byte
	rate   int              // bytes per second and direction; 0: no limit
	refuse bool
}

// link is one connection through the proxy.
type link struct{ client, server net.Conn } // server is nil until it is connected

// close resets both sides, so that neither stays half open.
func (l *link) close() {
	for _, conn := range []net.Conn{l.client, l.server} {
		if conn == nil {
			continue
		}
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // closing is all that is left
		}
		_ = conn.Close()
	}
}

// New returns a proxy in front of target, a host:port. It accepts connections while Run runs.
func New(ctx context.Context, target string) (*Proxy, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return &Proxy{target: target, listener: listener, open: map[*link]bool{}}, nil
}

// NewRedis returns a proxy in front of a Redis server without TLS.
func NewRedis(ctx context.Context, target string) (*Proxy, error) {
	p, err := New(ctx, target)
	if err == nil {
		p.redis = true
	}
	return p, err
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
	l := &link{client: client}
	defer l.close()
	if !p.add(ctx, l) {
		return
	}
	defer p.remove(l)
	if !p.wait(ctx, ToServer) || p.connect(ctx, l) != nil {
		return // the target is down
	}
	up, down := p.chunks(client), p.chunks(l.server)
	if p.redis {
		up, down = p.hooks.frames(client, l.server)
	}
	var copies sync.WaitGroup
	copies.Go(func() { p.copy(ctx, l, ToServer, up) })
	copies.Go(func() { p.copy(ctx, l, ToClient, down) })
	copies.Wait()
}

// add reports whether the connection may stay open.
func (p *Proxy) add(ctx context.Context, l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.faults.refuse || ctx.Err() != nil {
		return false
	}
	p.open[l] = true
	return true
}

// connect connects a link to the target.
func (p *Proxy) connect(ctx context.Context, l *link) error {
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	server, err := new(net.Dialer).DialContext(ctx, "tcp", target)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		l.server = server
	}
	return err
}

func (p *Proxy) remove(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, l)
}

// source returns the next bytes to forward. They are valid until the next call.
type source func() ([]byte, error)

// chunks returns what a connection sends, in pieces of any size.
func (p *Proxy) chunks(from net.Conn) source {
	buffer := make([]byte, 16<<10)
	return func() ([]byte, error) {
		n, err := from.Read(buffer[:p.chunkSize(len(buffer))])
		return buffer[:n], err
	}
}

// chunkSize returns how many bytes to forward at a time: a twentieth of a second's if the rate is limited.
func (p *Proxy) chunkSize(limit int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.faults.rate == 0 {
		return limit
	}
	return min(max(p.faults.rate/20, 1), limit)
}

// piece is the result of one read. No piece follows an error.
type piece struct {
	at   time.Time
	data []byte
	err  error
}

// ahead is the number of pieces that are read from each direction of a connection before the first of them is
// forwarded.
const ahead = 1024

// copy forwards one direction until either side ends it.
func (p *Proxy) copy(ctx context.Context, l *link, d Direction, next source) {
	pieces := make(chan piece, ahead)
	var writing sync.WaitGroup
	writing.Go(func() {
		p.write(ctx, l, d, pieces)
		for range pieces { // so that reading ends
		}
	})
	for err := error(nil); err == nil; {
		var data []byte
		data, err = next()
		pieces <- piece{at: time.Now(), data: bytes.Clone(data), err: err}
	}
	close(pieces)
	writing.Wait()
}

// write forwards the pieces of one direction, each when it may pass.
func (p *Proxy) write(ctx context.Context, l *link, d Direction, pieces <-chan piece) {
	to := l.server
	if d == ToClient {
		to = l.client
	}
	for piece := range pieces {
		if !p.wait(ctx, d) || !p.slow(ctx, piece) {
			l.close()
			return
		}
		if _, err := to.Write(piece.data); err != nil {
			l.close()
			return
		}
		if piece.err != nil {
			l.end(to, piece.err)
			return
		}
	}
}

// end forwards the end of one side's data, or resets both sides.
func (l *link) end(to net.Conn, err error) {
	if tcp, ok := to.(*net.TCPConn); ok && errors.Is(err, io.EOF) && tcp.CloseWrite() == nil {
		return
	}
	l.close()
}

// wait returns when bytes may pass in a direction. It reports false if ctx has ended.
func (p *Proxy) wait(ctx context.Context, d Direction) bool {
	p.mu.Lock()
	held := p.faults.held[d]
	p.mu.Unlock()
	if held != nil {
		select {
		case <-held:
		case <-ctx.Done():
		}
	}
	return ctx.Err() == nil
}

// slow waits for the delay of a piece, and for the time that its bytes take at the limited rate. It reports false if
// ctx has ended.
func (p *Proxy) slow(ctx context.Context, sent piece) bool {
	p.mu.Lock()
	pause := p.faults.delay - time.Since(sent.at)
	if p.faults.rate > 0 {
		pause = max(pause, 0) + time.Duration(len(sent.data))*time.Second/time.Duration(p.faults.rate)
	}
	p.mu.Unlock()
	if pause > 0 {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
	return ctx.Err() == nil
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

// Refuse makes the proxy close new connections at once, or accept them again.
func (p *Proxy) Refuse(yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults.refuse = yes
}

// Hold stops all traffic, or that of one direction, until Pass: connections stay open, even if the other side closes,
// and nothing is received. New connections are accepted, even if the target is down, unless only ToClient is held.
func (p *Proxy) Hold(only ...Direction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(only) == 0 {
		only = []Direction{ToServer, ToClient}
	}
	for _, d := range only {
		if p.faults.held[d] == nil {
			p.faults.held[d] = make(chan struct{})
		}
	}
}

// Pass forwards the traffic that Hold kept back, and all later traffic.
func (p *Proxy) Pass() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for d, held := range p.faults.held {
		if held != nil {
			close(held)
			p.faults.held[d] = nil
		}
	}
}

// Slow delays every byte, however many are in transit, and limits the bytes per second of each connection and
// direction. Zero removes either.
func (p *Proxy) Slow(delay time.Duration, bytesPerSecond int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults.delay, p.faults.rate = delay, bytesPerSecond
}
