package server

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-dev/tidemark/internal/frames"
)

// registerMetrics registers the gauges of connections, of waiting fetches and of waiting queries.
func (s *Server) registerMetrics(registry *prometheus.Registry) {
	gauge := func(name, help string, value func() int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help},
			func() float64 { return float64(value()) })
	}
	registry.MustRegister(
		gauge("tidemark_http_connections", "Open connections of clients.", s.openConnections),
		gauge("tidemark_draining", "1 while the server drains, at its end or by an operator.", func() int {
			if s.router.IsDraining() {
				return 1
			}
			return 0
		}),
		gauge("tidemark_waiting_fetches", "Fetches that are waiting for a message.", func() int {
			waiters, _ := s.service.Waiting()
			return waiters
		}),
		gauge("tidemark_listened_channels", "Channels whose notifications are being listened to.", func() int {
			_, channels := s.service.Waiting()
			return channels
		}),
	)
	if s.services != nil {
		registry.MustRegister(gauge("tidemark_ticket_queries_waiting",
			"Calls of QueryTickets and QueryTicketIds that wait until others have ended.", s.services.WaitingQueries))
	}
}

// countFloods returns a function that counts connections with too many frames.
func countFloods(registry *prometheus.Registry) (flooded func(frames.Outcome)) {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tidemark_http_frame_floods_total",
		Help: "HTTP/2 connections with too many frames, by what happened to them.",
	}, []string{"outcome"})
	registry.MustRegister(c)
	return func(o frames.Outcome) { c.WithLabelValues(string(o)).Inc() }
}

// countLimited returns a function that counts requests beyond the limits of clients.
func countLimited(registry *prometheus.Registry) (refused func(limit, of string)) {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tidemark_limited_total", Help: "Requests beyond a limit of their client, by the limit and whose it is.",
	}, []string{"limit", "of"})
	registry.MustRegister(c)
	return func(limit, of string) { c.WithLabelValues(limit, of).Inc() }
}
