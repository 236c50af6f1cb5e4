package v1

import (
	"cmp"
	"context"
	"net/http"
	"strings"

	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/service"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

// Backfills are the operations on backfills.
type Backfills interface {
	CreateBackfill(ctx context.Context, n service.NewBackfill) (matchmaking.Backfill, error)
	Backfill(ctx context.Context, id string) (matchmaking.Backfill, error)
	UpdateBackfill(ctx context.Context, id string, spec matchmaking.BackfillSpec) (matchmaking.Backfill, error)
	DeleteBackfill(ctx context.Context, id string) error
	AcknowledgeBackfill(ctx context.Context, id string, a matchmaking.Allocation) (matchmaking.Acknowledged, error)
}

type backfills struct{ service Backfills }

// register adds the routes.
func (h *backfills) register(a web.API) {
	const one = "/v1/backfills/:id"
	a.Add(web.Route{Method: http.MethodPost, Path: "/v1/backfills", Action: access.Backfill, Handle: h.create})
	a.AddGet(web.Route{Path: one, Action: access.Backfill, Of: ofBackfill, Handle: h.show})
	a.Add(web.Route{Method: http.MethodPut, Path: one, Action: access.Backfill, Of: ofBackfill, Handle: h.update})
	a.Add(web.Route{Method: http.MethodDelete, Path: one, Action: access.Backfill, Of: ofBackfill, Handle: h.delete})
	a.Add(web.Route{Method: http.MethodPost, Path: one + "/acknowledge", Action: access.Backfill, Of: ofBackfill,
		Handle: h.acknowledge})
	a.NothingBelow(one)
}

// ofBackfill returns the queue of a backfill, which is part of its ID.
func ofBackfill(c *web.Call) access.Resource {
	_, queue, _ := strings.Cut(c.Param(0), ".")
	return access.Resource{Queue: queue}
}

// create is POST /v1/backfills.
func (h *backfills) create(c *web.Call) error {
	request, err := decodeBody(c, wire.DecodeNewBackfill)
	if err != nil {
		return err
	}
	request.Queue = cmp.Or(request.Queue, matchmaking.DefaultQueue)
	if err := c.Allow(access.Backfill, access.Resource{Queue: request.Queue}); err != nil {
		return err
	}
	b, err := h.service.CreateBackfill(c.Context(), service.NewBackfill{
		Queue: request.Queue, Spec: request.BackfillSpec,
	})
	if err != nil {
		return inBody(err)
	}
	c.SetLocation("/v1/backfills/" + b.ID)
	return c.Value(http.StatusCreated, backfillOf(&b))
}

// show is GET /v1/backfills/{id}.
func (h *backfills) show(c *web.Call) error {
	b, err := h.service.Backfill(c.Context(), c.Param(0))
	if err != nil {
		return err
	}
	return c.Value(http.StatusOK, backfillOf(&b))
}

// update is PUT /v1/backfills/{id}.
func (h *backfills) update(c *web.Call) error {
	spec, err := decodeBody(c, wire.DecodeBackfillSpec)
	if err != nil {
		return err
	}
	b, err := h.service.UpdateBackfill(c.Context(), c.Param(0), spec)
	if err != nil {
		return inBody(err)
	}
	return c.Value(http.StatusOK, backfillOf(&b))
}

// delete is DELETE /v1/backfills/{id}.
func (h *backfills) delete(c *web.Call) error {
	if err := h.service.DeleteBackfill(c.Context(), c.Param(0)); err != nil {
		return err
	}
	return c.NoContent()
}

// acknowledge is POST /v1/backfills/{id}/acknowledge.
func (h *backfills) acknowledge(c *web.Call) error {
	request, err := decodeBody(c, wire.DecodeAcknowledgement)
	if err != nil {
		return err
	}
	done, err := h.service.AcknowledgeBackfill(c.Context(), c.Param(0), matchmaking.Allocation{
		Connection: request.Connection, Extensions: request.Extensions,
	})
	if err != nil {
		return inBody(err)
	}
	answer := wire.AcknowledgedBackfill{
		Backfill: backfillOf(&done.Backfill), Tickets: make([]wire.Ticket, len(done.Tickets)),
	}
	for i, t := range done.Tickets {
		answer.Tickets[i] = ticketOf(t)
	}
	return c.Value(http.StatusOK, answer)
}

// decodeBody decodes the body of a call.
func decodeBody[T any](c *web.Call, decode func([]byte) (T, error)) (value T, err error) {
	body, err := c.Body()
	if err != nil {
		return value, err
	}
	defer body.Release()
	return decode(body.Bytes)
}

func backfillOf(b *matchmaking.Backfill) wire.Backfill {
	return wire.Backfill{
		ID: b.ID, Queue: b.Queue, CreateTime: b.CreateTime.UTC(), ExpireTime: b.Expires.UTC(), Generation: b.Generation,
		BackfillSpec: b.BackfillSpec, Tickets: b.Tickets,
	}
}
