package web

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/tidemark-dev/tidemark/internal/histogram"
	"github.com/tidemark-dev/tidemark/internal/tracing"
	"github.com/tidemark-dev/tidemark/internal/unsent"
)

// metrics are the metrics of requests and of the process.
type metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	refused  prometheus.Counter // connections
}

func newMetrics(registry *prometheus.Registry, bodies *bodyMemory, answers *unsent.Budget) *metrics {
	unread := func(outcome string, count func() int64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "tidemark_unread_answers_total",
			Help: "Answers that were refused because their client, or all clients, left too much unread, and those " +
				"that ended because they were read too slowly.",
			ConstLabels: prometheus.Labels{"outcome": outcome},
		}, func() float64 { return float64(count()) })
	}
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tidemark_http_requests_total",
			Help: "HTTP requests answered. Code 499 stands for a client that went away.",
		}, []string{"route", "method", "code"}),
		seconds: prometheus.NewHistogramVec(histogram.Options("tidemark_http_request_seconds",
			"Time from a request's headers to the end of its answer, waiting included.",
			[]float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		), []string{"route", "method"}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tidemark_http_connections_refused_total", Help: "Connections refused, or closed because they " +
				"weren't in use, when there were too many.",
		}),
	}
	registry.MustRegister(
		m.requests, m.seconds, m.refused,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "tidemark_http_body_bytes", Help: "Memory taken by the bodies of requests in progress.",
		}, func() float64 { return float64(bodies.used.Load()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "tidemark_unread_answer_bytes", Help: "Memory taken by answers that clients have not read.",
		}, func() float64 { return float64(answers.Bytes()) }),
		unread("refused", answers.Refused), unread("slow", answers.Slow),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "tidemark_http_bodies_waiting", Help: "Large bodies and answers that wait for decoding or encoding.",
		}, func() float64 { return float64(bodies.waiting.Load()) }),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return m
}

// CountRefused counts a connection that isn't served because there are too many.
func (r *Router) CountRefused() { r.metrics.refused.Inc() }

// countedStatuses are the statuses whose counters each route keeps.
var countedStatuses = [...]int{
	http.StatusOK, http.StatusCreated, http.StatusNoContent, http.StatusBadRequest, http.StatusUnauthorized,
	http.StatusForbidden,
	http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusConflict, http.StatusRequestEntityTooLarge,
	StatusClientGone, http.StatusServiceUnavailable,
}

// routeMetrics are one route's part of the metrics. They are made by its first request, since a histogram for each of
// all routes would make a page of 300 KB, and they are looked up once and not at each request.
type routeMetrics struct {
	all           *metrics
	route, method string
	seconds       func() prometheus.ExemplarObserver
	counters      [len(countedStatuses)]atomic.Pointer[prometheus.Counter] // as countedStatuses
}

func (m *metrics) route(route, method string) *routeMetrics {
	return &routeMetrics{all: m, route: route, method: method, seconds: sync.OnceValue(
		func() prometheus.ExemplarObserver {
			return m.seconds.WithLabelValues(route, method).(prometheus.ExemplarObserver)
		})}
}

// observe counts a request with a context. It may be called by several goroutines.
func (r *routeMetrics) observe(ctx context.Context, status int, elapsed time.Duration) {
	r.counter(status).Inc()
	histogram.Observe(tracing.ID(ctx), r.seconds(), elapsed)
}

func (r *routeMetrics) counter(status int) prometheus.Counter {
	i := slices.Index(countedStatuses[:], status)
	if i >= 0 {
		if counter := r.counters[i].Load(); counter != nil {
			return *counter
		}
	}
	made := r.all.requests.WithLabelValues(r.route, r.method, strconv.Itoa(status))
	if i >= 0 {
		r.counters[i].Store(&made)
	}
	return made
}
