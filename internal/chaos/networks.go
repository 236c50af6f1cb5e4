package main

import (
	"time"

	"github.com/tidemark-dev/tidemark/internal/proxy"
)

// networks are scenarios in which connections break, fall silent or are slow.
func networks() []scenario {
	return []scenario{
		{
			name: "redis-cut", fault: "all connections to Redis reset, ten times, half a second apart",
			redisVia: true, limits: limits{gap: 2 * time.Second},
			inject: func(s *stage) { s.cut(s.toRedis) },
		},
		{
			name: "redis-half-open", fault: "connections to Redis of one service, then of both, silent for 8 s and then reset",
			redisVia: true, limits: limits{gap: 15 * time.Second},
			inject: func(s *stage) { s.silence(s.toRedis) },
		},
		{
			name: "redis-slow", fault: "20 ms of delay and at most 512 KiB/s on every connection to Redis for 8 s",
			redisVia: true, limits: limits{gap: 3 * time.Second},
			inject: func(s *stage) { s.slow(s.toRedis, 20*time.Millisecond, 512<<10) },
		},
		{
			name: "client-cut", fault: "all client connections reset, ten times, half a second apart",
			clientVia: true, limits: limits{gap: 2 * time.Second},
			inject: func(s *stage) { s.cut(s.toService) },
		},
		{
			name: "client-half-open", fault: "client connections to one service, then to both, silent for 8 s and then reset",
			clientVia: true, limits: limits{gap: 20 * time.Second},
			inject: func(s *stage) { s.silence(s.toService) },
		},
		{
			name: "client-slow", fault: "50 ms of delay and at most 64 KiB/s on every client connection for 8 s",
			clientVia: true, limits: limits{gap: 3 * time.Second},
			inject: func(s *stage) { s.slow(s.toService, 50*time.Millisecond, 64<<10) },
		},
	}
}

func (s *stage) cut(proxies []*proxy.Proxy) {
	for range 10 {
		for _, p := range proxies {
			p.Cut()
		}
		s.must(pause(s.ctx, 500*time.Millisecond))
	}
}

// silence holds the connections of the first proxy, then of all.
func (s *stage) silence(proxies []*proxy.Proxy) {
	for _, some := range [][]*proxy.Proxy{proxies[:1], proxies} {
		for _, p := range some {
			p.Hold()
		}
		s.must(pause(s.ctx, 8*time.Second))
		for _, p := range some {
			p.Cut()
			p.Pass()
		}
		s.must(pause(s.ctx, time.Second))
	}
}

func (s *stage) slow(proxies []*proxy.Proxy, delay time.Duration, bytesPerSecond int) {
	for _, p := range proxies {
		p.Slow(delay, bytesPerSecond)
	}
	s.must(pause(s.ctx, 8*time.Second))
	for _, p := range proxies {
		p.Slow(0, 0)
	}
}
