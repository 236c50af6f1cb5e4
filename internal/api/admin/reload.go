package admin

import (
	"context"
	"net/http"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

// Reload reads the configuration again, and returns what it has changed. Errors: fault.SlugConfiguration.
type Reload func(ctx context.Context) (client.Reloaded, error)

// serve is POST /v1/reload.
func (r Reload) serve(c *web.Call) error {
	if err := withoutBody(c, "it reads the service's own file"); err != nil {
		return err
	}
	done, err := r(c.Context())
	if err != nil {
		return err
	}
	return c.Value(http.StatusOK, done)
}

// withoutBody returns an error if a request has a body, which the call doesn't use.
func withoutBody(c *web.Call, why string) error {
	body, err := c.Body()
	if err != nil {
		return err
	}
	size := len(body.Bytes)
	body.Release()
	if size > 0 {
		return &wire.InputError{Slug: fault.SlugInvalidBody, Detail: "this call has no body: " + why, Offset: -1}
	}
	return nil
}

// Configuration returns the options in force, without secrets. Errors: that of a context that has ended.
type Configuration func(ctx context.Context) (wire.Configuration, error)

// show is GET /v1/configuration.
func (f Configuration) show(c *web.Call) error {
	answer, err := f(c.Context())
	if err != nil {
		return err
	}
	return c.Value(http.StatusOK, answer)
}

func addReload(r *web.Router, reload Reload) {
	web.API{Router: r, Fail: web.Fail}.Add(web.Route{Method: http.MethodPost, Path: "/v1/reload", Action: access.Admin,
		Admin: true, Handle: reload.serve})
}

func addConfiguration(r *web.Router, of Configuration) {
	web.API{Router: r, Fail: web.Fail}.AddGet(web.Route{Path: "/v1/configuration", Action: access.Admin, Admin: true,
		Handle: of.show})
}
