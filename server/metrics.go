package server

import (
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics are what the server counts.
type metrics struct {
	requests   *prometheus.CounterVec
	seconds    *prometheus.HistogramVec
	published  prometheus.Counter
	duplicates prometheus.Counter
	delivered  prometheus.Counter
	expired    prometheus.Counter
	acks       prometheus.Counter
	refused    prometheus.Counter // connections
	page       http.Handler
}

func newMetrics(registry *prometheus.Registry, s *Server) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tidemark_http_requests_total",
			Help: "HTTP requests answered. Code 499 stands for a client that went away.",
		}, []string{"route", "method", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "tidemark_http_request_seconds",
			Help:    "Time from a request's headers to the end of its answer, waiting included.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"route", "method"}),
		published:  counter("tidemark_messages_published_total", "Messages published, without duplicates."),
		duplicates: counter("tidemark_messages_duplicates_total", "Messages refused as duplicates of one published before."),
		delivered:  counter("tidemark_messages_delivered_total", "Messages in answers to fetches, repeats included."),
		expired:    counter("tidemark_messages_expired_total", "Messages that fetches passed over because their life had ended."),
		acks:       counter("tidemark_acks_total", "Receipts acknowledged, repeats included."),
		refused:    counter("tidemark_http_connections_refused_total", "Connections that weren't served since there were too many."),
		page:       promhttp.HandlerFor(registry, promhttp.HandlerOpts{}),
	}
	registry.MustRegister(
		m.requests, m.seconds, m.published, m.duplicates, m.delivered, m.expired, m.acks, m.refused,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "tidemark_http_connections", Help: "Connections of clients that are open now.",
		}, func() float64 { return float64(s.connections()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "tidemark_http_body_bytes", Help: "Memory that the bodies of requests under way take now.",
		}, func() float64 { return float64(s.bodies.used.Load()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "tidemark_waiting_fetches", Help: "Fetches that wait for a message now.",
		}, func() float64 { waiters, _ := s.service.Waiting(); return float64(waiters) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "tidemark_listened_channels", Help: "Channels whose notifications are listened to now.",
		}, func() float64 { _, channels := s.service.Waiting(); return float64(channels) }),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return m
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

// countedStatuses are those whose counters are kept at hand.
var countedStatuses = [...]int{
	http.StatusOK, http.StatusCreated, http.StatusNoContent, http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed,
	http.StatusConflict, http.StatusRequestEntityTooLarge, statusClientGone, http.StatusServiceUnavailable,
}

// routeMetrics are one route's part of the metrics, found once and not at each request.
type routeMetrics struct {
	all           *metrics
	route, method string
	seconds       prometheus.Observer
	counters      [len(countedStatuses)]atomic.Pointer[prometheus.Counter] // as countedStatuses
}

func (m *metrics) route(route, method string) *routeMetrics {
	return &routeMetrics{all: m, route: route, method: method, seconds: m.seconds.WithLabelValues(route, method)}
}

// observe counts a request. It may be called by many goroutines.
func (r *routeMetrics) observe(status int, elapsed time.Duration) {
	r.counter(status).Inc()
	r.seconds.Observe(elapsed.Seconds())
}

func (r *routeMetrics) counter(status int) prometheus.Counter {
	i := slices.Index(countedStatuses[:], status)
	if i >= 0 {
		if known := r.counters[i].Load(); known != nil {
			return *known
		}
	}
	made := r.all.requests.WithLabelValues(r.route, r.method, strconv.Itoa(status))
	if i >= 0 {
		r.counters[i].Store(&made)
	}
	return made
}

func (s *Server) showMetrics(c *call) error {
	c.status = http.StatusOK
	c.setHeaders()
	s.metrics.page.ServeHTTP(c.response, c.request)
	return nil
}
