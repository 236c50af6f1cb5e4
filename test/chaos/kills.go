package main

import (
	"syscall"
	"time"

	"github.com/tidemark-dev/tidemark/test/launch"
)

// kills are scenarios in which processes are killed or stopped.
func kills() []scenario {
	return []scenario{
		{
			name: "service-kill", fault: "SIGKILL of one service after the other, four times, each restarted after 0.5 s",
			limits: limits{Gap: 3 * time.Second}, inject: killServices,
		},
		{
			name: "service-rolling", fault: "two rolling restarts with SIGTERM and a drain delay of 1 s, behind a load balancer",
			flags: []string{"--drain-delay", "1s"}, balanced: true,
			limits: limits{Gap: time.Second, NoErrors: true}, inject: restartServices,
		},
		{
			name: "service-stop", fault: "SIGSTOP of one service after the other for 5 s, longer than its leases last",
			limits: limits{Gap: 8 * time.Second}, inject: stopServices,
		},
		{
			name: "redis-kill", fault: "SIGKILL of Redis with `appendfsync always`, twice, restarted after 1 s",
			redis: redisSetup{args: alwaysSync()}, limits: limits{Gap: 6 * time.Second}, inject: killRedis,
		},
		{
			name: "kill-all", fault: "SIGKILL of Redis, with `appendfsync always`, and of both services at the same time; " +
				"all restarted after 0.5 s",
			redis: redisSetup{args: alwaysSync()}, limits: limits{Gap: 6 * time.Second}, inject: killAll,
		},
	}
}

// alwaysSync makes Redis write its append-only file before it replies. With everysec it may reply earlier while the
// disk is slow.
func alwaysSync() []string { return []string{"--appendfsync", "always"} }

func killServices(s *stage) {
	for i := range 4 {
		service := s.services[i%servicesCount]
		s.Must(service.End(syscall.SIGKILL))
		s.pause(launch.RestartPause)
		s.Must(service.Start(s.Context()))
		s.Must(s.awaitReady(service))
		s.pause(time.Second)
	}
}

// restartServices restarts the services as a rolling update does.
func restartServices(s *stage) {
	for range 2 {
		for _, service := range s.services {
			s.Must(service.End(syscall.SIGTERM))
			s.Must(service.Start(s.Context()))
			s.Must(s.awaitReady(service))
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

func killRedis(s *stage) {
	for range 2 {
		s.node.Kill(s)
		s.pause(time.Second)
		s.node.Restart(s)
		s.pause(2 * time.Second)
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
