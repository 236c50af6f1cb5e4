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
	body, err := c.Body()
	if err != nil {
		return err
	}
	size := len(body.Bytes)
	body.Release()
	if size > 0 {
		return &wire.InputError{Slug: fault.SlugInvalidBody, Detail: "this call has no body: it reads the service's own file",
			Offset: -1}
	}
	done, err := r(c.Context())
	if err != nil {
		return err
	}
	return c.Value(http.StatusOK, done)
}

func addReload(r *web.Router, reload Reload) {
	web.API{Router: r, Fail: web.Fail}.Add(web.Route{Method: http.MethodPost, Path: "/v1/reload", Action: access.Admin,
		Admin: true, Handle: reload.serve})
}
