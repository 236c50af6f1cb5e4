package main

import (
	"syscall"
	"time"

	"github.com/tidemark-dev/tidemark/test/proxy"
)

func (s *stage) eachProxy(do func(*proxy.Proxy)) {
	for _, p := range s.proxies {
		do(p)
	}
}

func cutConnections(s *stage) {
	for range 10 {
		s.eachProxy((*proxy.Proxy).Cut)
		s.pause(500 * time.Millisecond)
	}
}

// silenceConnections holds the connections of the first service, then of both.
func silenceConnections(s *stage) {
	for n := 2; n <= len(s.proxies); n += 2 { // a service has one for HTTP, and one for gRPC
		for _, p := range s.proxies[:n] {
			p.Hold()
		}
		s.pause(8 * time.Second)
		for _, p := range s.proxies[:n] {
			p.Cut()
			p.Pass()
		}
		s.pause(time.Second)
	}
}

func slowConnections(delay time.Duration, bytesPerSecond int) func(*stage) {
	return func(s *stage) {
		s.eachProxy(func(p *proxy.Proxy) { p.Slow(delay, bytesPerSecond) })
		s.pause(8 * time.Second)
		s.eachProxy(func(p *proxy.Proxy) { p.Slow(0, 0) })
	}
}

func cutStreams(s *stage) {
	const pieces = 4 << 10 // bytes a second, in pieces of a twentieth
	for range 6 {
		s.eachProxy(func(p *proxy.Proxy) { p.Slow(0, pieces) })
		s.pause(400 * time.Millisecond)
		s.eachProxy(func(p *proxy.Proxy) { p.Cut(); p.Slow(0, 0) })
		s.pause(400 * time.Millisecond)
	}
	for _, service := range s.services {
		s.restart(service, syscall.SIGTERM, 0)
		s.pause(500 * time.Millisecond)
	}
	s.restart(s.services[0], syscall.SIGKILL, 0)
	s.pause(500 * time.Millisecond)
	s.node.Kill(s)
	s.pause(time.Second)
	s.node.Restart(s)
	s.note("%d streams were opened, and %d of them broke or were refused; so did %d of %d WebSockets",
		s.clients.Streams.Load(), s.clients.StreamsBroken.Load(), s.clients.SocketsBroken.Load(), s.clients.Sockets.Load())
}
