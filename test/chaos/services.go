package main

import (
	"syscall"
	"time"

	"github.com/tidemark-dev/tidemark/test/launch"
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
