package web

import (
	"net/http"

	"github.com/tidemark-dev/tidemark/wire"
)

// AddProbes registers /livez and /readyz.
func (r *Router) AddProbes() {
	a := API{Router: r, Fail: Fail, Always: true}
	a.AddGet(Route{Path: "/livez", Query: QueryIgnored, Open: true, Handle: live})
	a.AddGet(Route{Path: "/readyz", Query: QueryIgnored, Open: true, Handle: r.showReady})
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
