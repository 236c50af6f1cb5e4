package admin

import (
	"bytes"
	"maps"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/semaphore"

	"github.com/tidemark-dev/tidemark/internal/api/web"
)

// metrics serves the page of metrics. One page is made at a time, since each takes some milliseconds of a core.
type metrics struct {
	page http.Handler
	turn *semaphore.Weighted
}

func newMetrics(r *prometheus.Registry) *metrics {
	return &metrics{
		page: promhttp.HandlerFor(r, promhttp.HandlerOpts{EnableOpenMetrics: true}), turn: semaphore.NewWeighted(1),
	}
}

// show is GET /metrics.
func (m *metrics) show(c *web.Call) error {
	if err := m.turn.Acquire(c.Context(), 1); err != nil {
		return err
	}
	made := m.build(c.Request())
	c.SetOutcome(made.status, nil)
	c.SetHeaders()
	maps.Copy(c.Response().Header(), made.header)
	c.Response().WriteHeader(made.status)
	_, _ = c.Response().Write(made.Bytes()) // fails only if the client has gone
	return nil
}

// build makes the page, and lets the next request make one.
func (m *metrics) build(r *http.Request) *page {
	defer m.turn.Release(1)
	p := &page{header: http.Header{}, status: http.StatusOK}
	m.page.ServeHTTP(p, r)
	return p
}

// page is an answer in memory: a client that reads slowly doesn't hold up others.
type page struct {
	bytes.Buffer
	header http.Header
	status int
}

// Header returns the headers.
func (p *page) Header() http.Header { return p.header }

// WriteHeader sets the status.
func (p *page) WriteHeader(status int) { p.status = status }
