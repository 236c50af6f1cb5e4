package admin

import (
	"log/slog"
	"net/http"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/api/web"
)

// Drain sends the clients of the server to others, until Resume. Both may be called more than once. Errors:
// web.ErrDraining when the server shuts down.
type Drain interface {
	Drain() error
	Resume() error
}

func addDrain(r *web.Router, of Drain, log *slog.Logger) {
	d := &drain{of, log}
	a := web.API{Router: r, Fail: web.Fail}
	a.Add(web.Route{Method: http.MethodPost, Path: "/v1/drain", Action: access.Admin, Admin: true, Handle: d.begin})
	a.Add(web.Route{Method: http.MethodPost, Path: "/v1/resume", Action: access.Admin, Admin: true, Handle: d.end})
}

type drain struct {
	of  Drain
	log *slog.Logger
}

// begin is POST /v1/drain.
func (d *drain) begin(c *web.Call) error { return d.change(c, true, d.of.Drain) }

// end is POST /v1/resume.
func (d *drain) end(c *web.Call) error { return d.change(c, false, d.of.Resume) }

func (d *drain) change(c *web.Call, draining bool, how func() error) error {
	if err := withoutBody(c, "it is about the server that answers"); err != nil {
		return err
	}
	if err := how(); err != nil {
		return err
	}
	by := access.Local()
	if p := c.Principal(); p != nil {
		by = p
	}
	d.log.LogAttrs(c.Context(), slog.LevelInfo, "drain requested", slog.Bool("draining", draining),
		slog.String("by", by.Name()))
	return c.Value(http.StatusOK, client.Drained{Draining: draining})
}
