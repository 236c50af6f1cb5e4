package main

import (
	"errors"
	"syscall"
	"time"
)

// upgrades are scenarios in which the services are replaced by those of another release, one by one. They begin with
// the previous release.
func upgrades() []scenario {
	const fault = "the services replaced one by one behind a load balancer: the previous release by this one, this one by " +
		"the previous one, and again by this one"
	bounds := limits{Gap: 3 * time.Second}
	drain := []string{"--drain-delay", "1s"}
	return []scenario{
		{
			name: "upgrade", fault: fault, flags: drain, balanced: true, previous: true, limits: bounds,
			inject: upgrade,
		},
		{
			name: "upgrade-cluster", fault: fault + "; on a Cluster", flags: drain, balanced: true,
			redis: redisSetup{layout: cluster}, previous: true, limits: bounds, inject: upgrade,
		},
	}
}

// before returns the program of the previous release.
func (s *stage) before() string {
	if s.settings.previous == "" {
		s.Must(errors.New("-previous is missing: the binary that scripts/build-previous.sh builds, as `make upgrade` does"))
	}
	return s.settings.previous
}

// roll replaces the services by those of a release, service by service.
func (s *stage) roll(program string) {
	for _, service := range s.services {
		s.Must(service.End(syscall.SIGTERM))
		service.Program = program
		s.Must(service.Start(s.Context()))
		s.Must(s.awaitReady(service))
		s.pause(time.Second) // both releases serve
	}
}

func upgrade(s *stage) {
	s.roll(s.settings.tidemark)
	s.roll(s.before())
	s.roll(s.settings.tidemark)
}
