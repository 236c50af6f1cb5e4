package v1

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/service"
	"github.com/tidemark-dev/tidemark/internal/openmatch/convert"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

// Tickets creates, reads and cancels tickets.
type Tickets interface {
	Create(ctx context.Context, n service.NewTicket) (t matchmaking.Ticket, created bool, err error)
	Token(ctx context.Context, t *matchmaking.Ticket) string
	Ticket(ctx context.Context, id string) (matchmaking.Ticket, error)
	Cancel(ctx context.Context, id string) error
	Attend(ctx context.Context, id string) (stop func()) // the ticket's player is present until stop is called
}

type tickets struct{ service Tickets }

// create is POST /v1/tickets.
func (h *tickets) create(c *web.Call) error {
	body, err := c.Body()
	if err != nil {
		return err
	}
	request, err := wire.DecodeNewTicket(body.Bytes)
	body.Release()
	if err != nil {
		return err
	}
	request.Queue = cmp.Or(request.Queue, matchmaking.DefaultQueue)
	if err := c.Allow(access.Ticket, access.Resource{Queue: request.Queue}); err != nil {
		return err
	}
	t, created, err := h.service.Create(c.Context(), service.NewTicket{
		Queue: request.Queue, ID: request.ID, Spec: request.Spec, Owner: access.From(c.Context()).User(),
		TTL: time.Duration(request.TTL), PersistentTTL: convert.TTLOfJSON(request.PersistentField),
	})
	if err != nil {
		return inBody(err)
	}
	if created {
		c.SetLocation("/v1/tickets/" + t.ID)
	}
	answer := createdTicket(&t)
	answer.Token = h.service.Token(c.Context(), &t)
	return c.Append(createdStatus(created), 0, func(b []byte) []byte { return wire.AppendCreatedTicket(b, &answer) })
}

// show is GET /v1/tickets/{id}.
func (h *tickets) show(c *web.Call) error {
	id := c.Param(0)
	t, err := h.service.Ticket(c.Context(), id)
	if err != nil {
		return err
	}
	if t.Status == matchmaking.Searching || t.Status == matchmaking.Pending {
		h.service.Attend(c.Context(), id)()
	}
	return c.Value(http.StatusOK, ticketOf(t))
}

// cancel is DELETE /v1/tickets/{id}.
func (h *tickets) cancel(c *web.Call) error {
	if err := h.service.Cancel(c.Context(), c.Param(0)); err != nil {
		return err
	}
	return c.NoContent()
}

func createdTicket(t *matchmaking.Ticket) client.CreatedTicket {
	w := client.CreatedTicket{ID: t.ID, Queue: t.Queue, Status: string(t.Status), CreateTime: t.CreateTime.UTC()}
	if !t.NoChannel {
		name := matchmaking.ChannelOf(t.ID)
		w.Channel, w.Subscriber, w.ChannelURL = name, matchmaking.Subscriber, "/v1/channels/"+name
		w.MessagesURL = w.ChannelURL + "/subscribers/" + matchmaking.Subscriber + "/messages"
	}
	return w
}

func ticketOf(t matchmaking.Ticket) wire.Ticket {
	return wire.Ticket{
		CreatedTicket: createdTicket(&t), ExpireTime: t.Expires.UTC(), TTLMillis: t.TTL.Milliseconds(),
		LifeMillis: t.Life.Milliseconds(), Spec: convert.WithExtensions(t.Spec), MatchID: t.MatchID,
		Assignment: t.Assignment,
	}
}
