// Package probes serves the probes of orchestrators: /livez and /readyz.
package probes

import (
	"net/http"

	"github.com/tidemark-dev/tidemark/server/web"
	"github.com/tidemark-dev/tidemark/wire"
)

// Register adds the routes.
func Register(r *web.Router) {
	a, c := web.API{Router: r, Fail: web.Fail, Always: true}, &calls{r}
	a.AddGet(web.Route{Path: "/livez", Query: web.QueryIgnored, Open: true, Handle: c.live})
	a.AddGet(web.Route{Path: "/readyz", Query: web.QueryIgnored, Open: true, Handle: c.ready})
}

type calls struct{ router *web.Router }

// live is GET /livez: the process answers.
func (*calls) live(c *web.Call) error { return c.Value(http.StatusOK, wire.Status{Status: "ok"}) }

// ready is GET /readyz: requests can be served, and the server isn't draining.
func (s *calls) ready(c *web.Call) error {
	if err := s.router.Ready(c.Context()); err != nil {
		return err
	}
	return c.Value(http.StatusOK, wire.Status{Status: "ok"})
}
