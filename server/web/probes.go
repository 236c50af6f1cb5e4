// Package probes serves the probes of orchestrators: /livez and /readyz.

package web

import (
	"net/http"

	"github.com/tidemark-dev/tidemark/wire"
)

// Register adds the routes.
func Register(r *Router) {
	a, c := API{Router: r, Fail: Fail, Always: true}, &calls{r}
	a.AddGet(Route{Path: "/livez", Query: QueryIgnored, Open: true, Handle: c.live})
	a.AddGet(Route{Path: "/readyz", Query: QueryIgnored, Open: true, Handle: c.ready})
}

type calls struct{ router *Router }

// live is GET /livez: the process answers.
func (*calls) live(c *Call) error { return c.Value(http.StatusOK, wire.Status{Status: "ok"}) }

// ready is GET /readyz: requests can be served, and the server isn't draining.
func (s *calls) ready(c *Call) error {
	if err := s.router.Ready(c.Context()); err != nil {
		return err
	}
	return c.Value(http.StatusOK, wire.Status{Status: "ok"})
}
