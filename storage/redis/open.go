package redis

import (
	"context"

	"github.com/oklog/ulid/v2"

	"github.com/tidemark-dev/tidemark/matchmaking"
)

var _ matchmaking.Lookup = (*Store)(nil)

// Reserve runs open.lua on the ticket's channel, whose label is the name of the ticket's queue.
func (s *Store) Reserve(ctx context.Context, r matchmaking.Reservation) (matchmaking.Owner, error) {
	ch := s.channel(matchmaking.ChannelOf(r.TicketID))
	keys := append(ch.forSubscriber(matchmaking.Subscriber), ch.label())
	args := []string{
		matchmaking.Subscriber, r.Queue, r.Epoch.String(), epochText(r.Replaces), ch.markPrefix(), milliseconds(r.TTL),
	}
	rep, err := s.exec(ctx, openScript, keys, args)
	if err != nil {
		return matchmaking.Owner{}, err
	}
	return rep.owner()
}

// epochText returns an epoch as scripts get it: empty for none.
func epochText(epoch ulid.ULID) string {
	if epoch.IsZero() {
		return ""
	}
	return epoch.String()
}

// owner decodes what open.lua returns.
func (r reply) owner() (matchmaking.Owner, error) {
	if r.status != statusOK {
		return matchmaking.Owner{}, r.refusal()
	}
	d := r.decoder()
	owner := matchmaking.Owner{Epoch: d.epoch(), Queue: d.text()}
	return owner, d.end()
}

// Owner reads the epoch and the label of a ticket's channel with one command.
func (s *Store) Owner(ctx context.Context, ticketID string) (owner matchmaking.Owner, err error) {
	ch := s.channel(matchmaking.ChannelOf(ticketID))
	err = s.retry(ctx, "life", func(ctx context.Context) error {
		found, err := s.client.Do(ctx, s.client.B().Mget().Key(ch.epoch(), ch.label()).Build()).ToArray()
		if err != nil {
			return err
		}
		if found[0].IsNil() || found[1].IsNil() {
			return matchmaking.ErrNoTicket
		}
		d := decoder{script: "life", values: found}
		owner = matchmaking.Owner{Epoch: d.epoch(), Queue: d.text()}
		return d.end()
	})
	return owner, err
}
