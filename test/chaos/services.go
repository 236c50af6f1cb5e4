package main

import (
	"syscall"
	"time"

	"github.com/tidemark-dev/tidemark/test/launch"
	"github.com/tidemark-dev/tidemark/test/proxy"
)

// restart ends a service by a signal, starts it again after a pause, and returns when it is ready.
func (s *stage) restart(service *launch.Service, by syscall.Signal, pause time.Duration) {
	s.Must(service.End(by))
	s.pause(pause)
	s.Must(service.Start(s.Context()))
	s.Must(s.awaitReady(service))
}

func killServices(s *stage) {
	for i := range 4 {
		s.restart(s.services[i%servicesCount], syscall.SIGKILL, launch.RestartPause)
		s.pause(time.Second)
	}
}

// restartServices restarts the services as a rolling update does.
func restartServices(s *stage) {
	for range 2 {
		for _, service := range s.services {
			s.restart(service, syscall.SIGTERM, 0)
		}
	}
}

func stopServices(s *stage) {
	for _, service := range s.services {
		s.Must(service.Signal(syscall.SIGSTOP))
		s.pause(5 * time.Second)
		s.Must(service.Signal(syscall.SIGCONT))
		s.pause(time.Second)
	}
}

func killAll(s *stage) {
	s.node.Kill(s)
	for _, service := range s.services {
		s.Must(service.End(syscall.SIGKILL))
	}
	s.pause(launch.RestartPause)
	s.node.Restart(s)
	for _, service := range s.services {
		s.Must(service.Start(s.Context()))
	}
	for _, service := range s.services {
		s.Must(s.awaitReady(service))
	}
}

// previousProgram returns the program of the previous release.
func (s *stage) previousProgram() string {
	if s.settings.previous == "" {
		s.Fatalf("-previous is missing: the binary that scripts/build-previous.sh builds, as `make upgrade` does")
	}
	return s.settings.previous
}

// roll replaces the services by those of a release, service by service.
func (s *stage) roll(program string) {
	for _, service := range s.services {
		service.Program = program // of the next start
		s.restart(service, syscall.SIGTERM, 0)
		s.pause(time.Second) // both releases serve
	}
}

func upgrade(s *stage) {
	s.roll(s.settings.tidemark)
	s.roll(s.previousProgram())
	s.roll(s.settings.tidemark)
}

// receiptKey is the Redis key in which servers share the key that signs receipts.
const receiptKey = "tidemark.receipt-key"

// keyGrace is how long servers may refuse each other's receipts after a start: until the other one has added its key.
const keyGrace = time.Second

func loseKey(s *stage) {
	service := s.services[0]
	s.command("DEL", receiptKey)
	s.Must(service.End(syscall.SIGTERM))
	s.clients.Messages.AllowForged(readyLimit)
	s.Must(service.Start(s.Context()))
	s.Must(s.awaitReady(service))
	s.clients.Messages.AllowForged(keyGrace)
	s.pause(keyGrace)
	s.note("%d receipts were refused", s.clients.Messages.Verdict().Excused)
}

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
