package records

import (
	"context"
	"net/http"
	"time"

	clientrecords "github.com/tidemark-dev/tidemark/client/records"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

// States are the states of processes. *records.States implements it.
type States interface {
	Patch(ctx context.Context, p records.StatePatch) (records.State, error)
	Get(ctx context.Context, process, id string) (records.State, error)
	Delete(ctx context.Context, process, id string) error
}

type stateCalls struct{ service States }

func addStates(a web.API, service States) {
	const path = "/v1/states/:process/:id"
	h, of := &stateCalls{service}, of("states", 2)
	for _, r := range []web.Route{
		{Method: http.MethodPatch, Path: path, Action: access.Write, Of: of, Handle: h.patch},
		{Method: http.MethodPut, Path: path, Action: access.Write, Of: of, Handle: h.put},
		{Method: http.MethodDelete, Path: path, Action: access.Write, Of: of, Handle: h.delete},
	} {
		a.Add(r)
	}
	a.AddGet(web.Route{Path: path, Action: access.Read, Of: of, Handle: h.show})
	a.NothingBelow(path)
}

// patch is PATCH /v1/states/{process}/{id}.
func (h *stateCalls) patch(c *web.Call) error { return h.change(c, false) }

// put is PUT /v1/states/{process}/{id}.
func (h *stateCalls) put(c *web.Call) error { return h.change(c, true) }

func (h *stateCalls) change(c *web.Call, replace bool) error {
	asked, err := decode[wire.StateChange](c)
	if err != nil {
		return err
	}
	state, err := h.service.Patch(c.Context(), records.StatePatch{
		Process: c.Param(0), ID: c.Param(1), Set: asked.Fields, Delete: asked.Remove, Replace: replace,
		TTL: time.Duration(asked.TTL),
	})
	if err != nil {
		return inBody(err, "process", "id")
	}
	return showState(c, &state)
}

func showState(c *web.Call, s *records.State) error {
	size := 0
	for field, value := range s.Fields {
		size += len(field) + len(value)
	}
	if err := c.Encode(size); err != nil {
		return err
	}
	return c.Value(http.StatusOK, clientrecords.State{Fields: s.Fields, ExpiresAt: s.Expires})
}

// show is GET /v1/states/{process}/{id}.
func (h *stateCalls) show(c *web.Call) error {
	state, err := h.service.Get(c.Context(), c.Param(0), c.Param(1))
	if err != nil {
		return err
	}
	return showState(c, &state)
}

// delete is DELETE /v1/states/{process}/{id}.
func (h *stateCalls) delete(c *web.Call) error {
	return done(c, h.service.Delete(c.Context(), c.Param(0), c.Param(1)))
}
