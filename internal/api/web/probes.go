package web

import (
	"net/http"

	"github.com/tidemark-dev/tidemark/internal/wire"
)

// Probes are the paths of RegisterProbes.
var Probes = []string{"/livez", "/readyz", "/healthz"}

// RegisterProbes adds the routes of the probes of orchestrators, /livez and /readyz, and /healthz for those that were
// set up for Open Match. They are served on connections beyond the limit too.
func RegisterProbes(r *Router) {
	a, p := API{Router: r, Fail: Fail, Always: true}, &probes{r}
	a.AddGet(Route{Path: "/livez", Query: QueryIgnored, Open: true, Handle: p.live})
	a.AddGet(Route{Path: "/readyz", Query: QueryIgnored, Open: true, Handle: p.ready})
	a.AddGet(Route{Path: "/healthz", Query: QueryIgnored, Open: true, Handle: p.healthy})
}

type probes struct{ router *Router }

// live is GET /livez: the process answers.
func (*probes) live(c *Call) error { return c.Value(http.StatusOK, wire.Status{Status: "ok"}) }

// ready is GET /readyz: requests can be served, and the server isn't draining.
func (p *probes) ready(c *Call) error {
	if err := p.router.Ready(c.Context()); err != nil {
		return err
	}
	return c.Value(http.StatusOK, wire.Status{Status: "ok"})
}

// healthy is GET /healthz: live, or ready if the request has a query. Open Match's charts use /healthz for liveness and
// /healthz?readiness=true for readiness.
func (p *probes) healthy(c *Call) error {
	if c.Request().URL.RawQuery != "" {
		if err := p.router.Ready(c.Context()); err != nil {
			return err
		}
	}
	return c.Bytes("text/plain; charset=utf-8", []byte("ok"))
}
