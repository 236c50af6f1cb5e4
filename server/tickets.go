package server

import (
	"net/http"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/matchmaking/service"
	"github.com/tidemark-dev/tidemark/wire"
)

// headerLocation is in the form in which net/http keeps it.
const headerLocation = "Location"

// createTicket is POST /v1/tickets.
func (s *Server) createTicket(c *call) error {
	body, err := c.body()
	if err != nil {
		return err
	}
	request, err := wire.DecodeNewTicket(body.bytes)
	body.release()
	if err != nil {
		return err
	}
	t, created, err := s.matches.Create(c.request.Context(), service.NewTicket{
		Queue: request.Queue, ID: request.ID, Spec: specOf(request.TicketSpec), TTL: time.Duration(request.TTL),
	})
	if err != nil {
		return inBody(err)
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
		c.response.Header()[headerLocation] = []string{"/v1/tickets/" + t.ID}
	}
	answer := createdTicket(t)
	out := newBuffer(0)
	defer out.release()
	out.bytes = answer.AppendJSON(out.bytes)
	return c.json(status, out.bytes)
}

// showTicket is GET /v1/tickets/{id}.
func (s *Server) showTicket(c *call) error {
	id := c.param(0)
	t, err := s.matches.Ticket(c.request.Context(), id)
	if err != nil {
		return err
	}
	if t.Status == matchmaking.Searching || t.Status == matchmaking.Pending {
		s.matches.Attend(c.request.Context(), id)()
	}
	return c.value(http.StatusOK, ticketOf(t))
}

// cancelTicket is DELETE /v1/tickets/{id}.
func (s *Server) cancelTicket(c *call) error {
	if err := s.matches.Cancel(c.request.Context(), c.param(0)); err != nil {
		return err
	}
	return c.noContent()
}

// attend tells matchmaking that a ticket's player polls, where q is one's poll, until the function that it gives is
// called. Such a channel has one message to wait for.
func (s *Server) attend(c *call, q *channel.Query) (stop func()) {
	if s.matches == nil || q.Subscriber != matchmaking.Subscriber {
		return nothing
	}
	id, ok := strings.CutPrefix(q.Channel, matchmaking.ChannelPrefix)
	if !ok {
		return nothing
	}
	q.ListenFirst = true
	return s.matches.Attend(c.request.Context(), id)
}

// unreserved makes a handler refuse channels of tickets, which only the service writes to. The channel is the path's first
// parameter.
func (s *Server) unreserved(handle func(*call) error) func(*call) error {
	return func(c *call) error {
		if s.matches != nil && strings.HasPrefix(c.param(0), matchmaking.ChannelPrefix) {
			return matchmaking.ErrReserved
		}
		return handle(c)
	}
}

func nothing() {}

func specOf(s wire.TicketSpec) matchmaking.Spec {
	spec := matchmaking.Spec{
		SearchFields: matchmaking.SearchFields{
			Tags: s.SearchFields.Tags, DoubleArgs: matchmaking.Doubles(s.SearchFields.DoubleArgs), StringArgs: s.SearchFields.StringArgs,
		},
		NumTeams: s.NumTeams, TeamSize: s.TeamSize, Extensions: s.Extensions, PersistentField: s.PersistentField,
	}
	for _, c := range s.Criteria {
		spec.Criteria = append(spec.Criteria, matchmaking.Criterion(c))
	}
	for _, v := range s.Statistics {
		spec.Statistics = append(spec.Statistics, matchmaking.Statistic(v))
	}
	return spec
}

func createdTicket(t matchmaking.Ticket) wire.CreatedTicket {
	name := matchmaking.ChannelOf(t.ID)
	at := "/v1/channels/" + name
	return wire.CreatedTicket{
		ID: t.ID, Queue: t.Queue, Status: string(t.Status), CreateTime: t.CreateTime.UTC(),
		Channel: name, Subscriber: matchmaking.Subscriber,
		ChannelURL: at, MessagesURL: at + "/subscribers/" + matchmaking.Subscriber + "/messages",
	}
}

func ticketOf(t matchmaking.Ticket) wire.Ticket {
	answer := wire.Ticket{
		CreatedTicket: createdTicket(t), ExpireTime: t.Expires.UTC(), TTLMillis: t.TTL.Milliseconds(), LifeMillis: t.Life.Milliseconds(),
		TicketSpec: wire.TicketSpec{
			SearchFields: wire.SearchFields{
				Tags: t.SearchFields.Tags, DoubleArgs: wire.Doubles(t.SearchFields.DoubleArgs), StringArgs: t.SearchFields.StringArgs,
			},
			NumTeams: t.NumTeams, TeamSize: t.TeamSize, Extensions: t.Extensions, PersistentField: t.PersistentField,
		},
		MatchID: t.MatchID,
	}
	for _, c := range t.Criteria {
		answer.Criteria = append(answer.Criteria, wire.Criterion(c))
	}
	for _, v := range t.Statistics {
		answer.Statistics = append(answer.Statistics, wire.Statistic(v))
	}
	if t.Assignment != nil {
		a := wire.Assignment(*t.Assignment)
		answer.Assignment = &a
	}
	return answer
}
