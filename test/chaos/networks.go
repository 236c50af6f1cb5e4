package main

import (
	"time"
)

// networks are scenarios in which connections break, hang or are slow.
func networks() []scenario {
	slow := func(delay time.Duration, bytesPerSecond int) func(*stage) {
		return func(s *stage) { slowConnections(s, delay, bytesPerSecond) }
	}
	var all []scenario
	for _, c := range []struct {
		name, fault string
		proxied     link
		gap         time.Duration
		inject      func(*stage)
	}{
		{"redis-cut", "all connections to Redis reset, ten times, half a second apart", toRedis, 2 * time.Second,
			cutConnections},
		{"redis-half-open", "connections to Redis of one service, then of both, silent for 8 s and then reset", toRedis,
			15 * time.Second, silenceConnections},
		{"redis-slow", "20 ms of delay and at most 512 KiB/s on every connection to Redis for 8 s", toRedis,
			3 * time.Second, slow(20*time.Millisecond, 512<<10)},
		{"client-cut", "all client connections reset, ten times, half a second apart", fromClients, 2 * time.Second,
			cutConnections},
		{"client-half-open", "client connections to one service, then to both, silent for 8 s and then reset", fromClients,
			20 * time.Second, silenceConnections},
		{"client-slow", "50 ms of delay and at most 64 KiB/s on every client connection for 8 s", fromClients,
			3 * time.Second, slow(50*time.Millisecond, 64<<10)},
	} {
		all = append(all, scenario{name: c.name, fault: c.fault, proxied: c.proxied, limits: limits{Gap: c.gap},
			inject: c.inject})
	}
	return all
}

func cutConnections(s *stage) {
	for range 10 {
		for _, p := range s.proxies {
			p.Cut()
		}
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

func slowConnections(s *stage, delay time.Duration, bytesPerSecond int) {
	for _, p := range s.proxies {
		p.Slow(delay, bytesPerSecond)
	}
	s.pause(8 * time.Second)
	for _, p := range s.proxies {
		p.Slow(0, 0)
	}
}
