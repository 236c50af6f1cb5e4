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
	rep, err := s.Run(ctx, openScript, keys, args)
	if err != nil {
		return matchmaking.Owner{}, err
	}
	return owner(rep)
}

// epochText returns an epoch as scripts get it: empty for none.
func epochText(epoch ulid.ULID) string {
	if epoch.IsZero() {
		return ""
	}
	return epoch.String()
}

// owner decodes what open.lua returns.
func owner(r Reply) (matchmaking.Owner, error) {
	if r.Status != OK {
		return matchmaking.Owner{}, queueRefusals.Error(r)
	}
	d := r.Decoder()
	found := matchmaking.Owner{Epoch: epochOf(d), Queue: d.Text()}
	return found, d.End()
}

// Owner reads the epoch and the label of a ticket's channel with one command.
func (s *Store) Owner(ctx context.Context, ticketID string) (owner matchmaking.Owner, err error) {
	ch := s.channel(matchmaking.ChannelOf(ticketID))
	err = s.Retry(ctx, "life", func(ctx context.Context) error {
		found, err := s.Client().Do(ctx, s.Client().B().Mget().Key(ch.epoch(), ch.label()).Build()).ToArray()
		if err != nil {
			return err
		}
		if found[0].IsNil() || found[1].IsNil() {
			return matchmaking.ErrNoTicket
		}
		d := NewDecoder("life", found)
		owner = matchmaking.Owner{Epoch: epochOf(d), Queue: d.Text()}
		return d.End()
	})
	return owner, err
}
