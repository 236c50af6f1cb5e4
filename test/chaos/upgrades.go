package main

import (
	"errors"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/tidemark-dev/tidemark/test/launch"
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

// release is a program of the service, and its features.
type release struct {
	program string
	early   bool // before 0.1.0: without gRPC and streams; it can't read this release's tickets and receipts
}

func (s *stage) current() release { return release{program: s.settings.tidemark} }

// before returns the previous release, and finds its features in its help.
func (s *stage) before() release {
	if s.settings.previous == "" {
		s.Must(errors.New("-previous is missing: the binary that scripts/build-previous.sh builds, as `make upgrade` does"))
	}
	//nolint:gosec // the program is that of the command line
	help, err := exec.CommandContext(s.Context(), s.settings.previous, "serve", "--help").Output()
	s.Must(err)
	return release{program: s.settings.previous, early: !strings.Contains(string(help), "--grpc-listen")}
}

// install makes a service run a release from its next start on.
func (s *stage) install(service *launch.Service, r release) {
	if s.arguments == nil {
		s.arguments = slices.Clone(service.Args[:slices.Index(service.Args, "--listen")])
	}
	service.Program, service.Args = r.program, append(slices.Clone(s.arguments), "--listen", service.HTTP)
	if !r.early {
		service.Args = append(service.Args, "--grpc-listen", service.GRPC, "--admin-listen", service.Admin)
	}
}

// roll replaces the services by those of a release, one by one.
func (s *stage) roll(r release) {
	for _, service := range s.services {
		s.Must(service.End(syscall.SIGTERM))
		s.install(service, r)
		s.Must(service.Start(s.Context()))
		s.Must(s.awaitReady(service))
		s.pause(time.Second) // both releases serve
	}
}

func upgrade(s *stage) {
	if s.before().early {
		s.clients.Messages.AllowForged(scenarioLimit) // receipts of this release; their messages come again
	}
	s.roll(s.current())
	s.roll(s.before())
	s.roll(s.current())
}
