package web

import (
	"net/http"

	"github.com/tidemark-dev/tidemark/access"
	"github.com/tidemark-dev/tidemark/wire"
)

// AddProbes registers /livez, /readyz and /metrics.
func (r *Router) AddProbes() {
	a := API{Router: r, Fail: Fail, Always: true}
	a.AddGet(Route{Path: "/livez", Query: QueryIgnored, Open: true, Handle: live})
	a.AddGet(Route{Path: "/readyz", Query: QueryIgnored, Open: true, Handle: r.showReady})
	a.AddGet(Route{Path: "/metrics", Query: QueryIgnored, Action: access.Admin, Handle: r.showMetrics})
}

// live is GET /livez: the process answers.
func live(c *Call) error { return c.Value(http.StatusOK, wire.Status{Status: "ok"}) }

// showReady is GET /readyz: requests can be served, and the server isn't draining.
func (r *Router) showReady(c *Call) error {
	if err := r.Ready(c.Context()); err != nil {
		return err
	}
	return c.Value(http.StatusOK, wire.Status{Status: "ok"})
}

// showMetrics is GET /metrics.
func (r *Router) showMetrics(c *Call) error {
	c.status = http.StatusOK
	c.SetHeaders()
	r.metrics.page.ServeHTTP(c.response, c.request)
	return nil
}
