package delivery

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

// Tickets records which players wait for a match, and delivers their assignments again that were lost.
// *service.Service implements it.
type Tickets interface {
	Attend(ctx context.Context, ticket string) (stop func()) // the ticket's player is present until stop is called
	// Redeliver publishes a ticket's assignment again, and reports whether there is one. Errors:
	// matchmaking.ErrNoTicket.
	Redeliver(ctx context.Context, ticket string) (published bool, err error)
	// ForgetOwner makes the guard read the ticket's owner again, unless the ID can never be another ticket's.
	ForgetOwner(ticket string)
}

// Players are the players that fetch their assignments from the channels of their tickets. They are present while they
// poll. nil: there is no matchmaking, and tickets' channels are ordinary channels.
type Players struct {
	tickets Tickets
	allow   func(ctx context.Context, ticketID string) error
}

// NewPlayers returns the players of tickets. allow returns an error unless the client of ctx may subscribe to a
// ticket's channel; nil: each may.
func NewPlayers(t Tickets, allow func(ctx context.Context, ticketID string) error) *Players {
	return &Players{tickets: t, allow: allow}
}

// TicketOf returns the ticket that a channel is of, if the subscriber is its player.
func (p *Players) TicketOf(name, subscriber string) (id string, ok bool) {
	if p == nil || subscriber != matchmaking.Subscriber {
		return "", false
	}
	return strings.CutPrefix(name, matchmaking.ChannelPrefix)
}

// Polls are the IDs of tickets by the sources of a fetch of many, or of a stream, that are players' polls.
type Polls map[int]string

// Polls returns the polls of players among sources; nil: none is one.
func (p *Players) Polls(from []channel.Source) (polls Polls) {
	for i := range from {
		if id, ok := p.TicketOf(from[i].Channel, from[i].Subscriber); ok {
			if polls == nil {
				polls = Polls{}
			}
			polls[i] = id
		}
	}
	return polls
}

// Attend marks a ticket's player as present until stop is called.
func (p *Players) Attend(ctx context.Context, id string) (stop func()) {
	return p.tickets.Attend(ctx, id)
}

// redeliverAfter is the duration of a poll from which on the assignment is read if it ends empty: a fail-over may have
// lost its message, or the ticket.
const redeliverAfter = time.Second

// Poll fetches for the player of a ticket, who is present meanwhile. The only message of a ticket's channel is the
// assignment, so it listens first. handle is the receipt to acknowledge, or "".
func (p *Players) Poll(
	ctx context.Context, id string, q channel.Query, handle string,
	fetch func(ctx context.Context, q channel.Query, handle string) (channel.Delivery, error),
) (channel.Delivery, error) {
	defer p.tickets.Attend(ctx, id)()
	q.ListenFirst = true
	d, err := fetch(ctx, q, handle)
	if err == nil && len(d.Messages) == 0 && q.Wait >= redeliverAfter {
		switch published, err := p.Redeliver(ctx, id); {
		case err != nil && d.Receipt == "": // else the message has expired, which the player is told first
			return channel.Delivery{}, err
		case published:
			q.Wait = 0
			if d, err = fetch(ctx, q, ""); err != nil {
				return channel.Delivery{}, err
			}
		}
	}
	if err == nil && len(d.Messages) > 0 {
		err = p.Check(ctx, id)
	}
	if err != nil {
		return channel.Delivery{}, err
	}
	return d, nil
}

// Redeliver publishes a ticket's assignment again, if it is assigned, and reports that. If the storage fails, a later
// call does so. Error: channel.ErrNoSubscriber if the ticket doesn't exist.
func (p *Players) Redeliver(ctx context.Context, id string) (published bool, err error) {
	if ctx.Err() != nil {
		return false, nil
	}
	published, err = p.tickets.Redeliver(ctx, id)
	if errors.Is(err, matchmaking.ErrNoTicket) {
		return false, channel.ErrNoSubscriber
	}
	return published && err == nil, nil
}

// Check returns an error if a ticket isn't the client's any more: during a poll, another ticket may have got its ID.
func (p *Players) Check(ctx context.Context, id string) error {
	if p.allow == nil {
		return nil
	}
	p.tickets.ForgetOwner(id)
	return p.allow(ctx, id)
}

// PollMany is Poll for a fetch of many, with polls of players among its sources.
func (p *Players) PollMany(ctx context.Context, polls Polls, q channel.ManyQuery,
	fetch func(ctx context.Context, q channel.ManyQuery) (channel.Deliveries, error)) (channel.Deliveries, error) {
	for _, id := range polls {
		defer p.tickets.Attend(ctx, id)()
	}
	began := time.Now()
	d, err := fetch(ctx, q)
	if err != nil {
		return d, err
	}
	waited := q.Wait
	if len(d.Found)+len(d.Problems) > 0 {
		waited = time.Since(began)
	}
	if waited >= redeliverAfter {
		if published := p.redeliverMissing(ctx, polls, &d); published && len(d.Found)+len(d.Problems) == 0 {
			q.Wait = 0
			d, err = fetch(ctx, q)
		}
	}
	p.checkFound(ctx, polls, &d)
	return d, err
}

// redeliverMissing publishes the assignments of all tickets for which nothing was found, and reports whether there is
// one. It adds a problem for each ticket that doesn't exist.
func (p *Players) redeliverMissing(ctx context.Context, polls Polls, d *channel.Deliveries) (published bool) {
	missing := maps.Clone(polls)
	for i := range d.Found {
		delete(missing, d.Found[i].Source)
	}
	for _, problem := range d.Problems {
		delete(missing, problem.Source)
	}
	for source, id := range missing {
		assigned, err := p.Redeliver(ctx, id)
		published = published || assigned
		if err != nil {
			d.Problems = append(d.Problems, channel.Problem{Source: source, Err: err})
		}
	}
	slices.SortFunc(d.Problems, func(a, b channel.Problem) int { return cmp.Compare(a.Source, b.Source) })
	return published
}

// checkFound replaces the results of tickets that aren't the client's any more: see Check.
func (p *Players) checkFound(ctx context.Context, polls Polls, d *channel.Deliveries) {
	d.Found = slices.DeleteFunc(d.Found, func(f channel.Found) bool {
		id, ok := polls[f.Source]
		if !ok {
			return false
		}
		err := p.Check(ctx, id)
		if err != nil {
			d.Problems = append(d.Problems, channel.Problem{Source: f.Source, Err: err})
		}
		return err != nil
	})
}
