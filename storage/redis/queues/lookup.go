package queues

import (
	"context"

	"github.com/oklog/ulid/v2"

	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/channels"
	"github.com/tidemark-dev/tidemark/storage/redis/lua"
)

var openScript = lua.Must("channels/open")

// Lookup keeps which queue a ticket is in, as the label of the ticket's channel. So it needs a connection to the Redis of the
// channels, which may be another one than that of the queues. It may be used by many goroutines.
type Lookup struct {
	conn *redis.Conn
}

var _ matchmaking.Lookup = (*Lookup)(nil)

// NewLookup returns the lookup in the Redis of a connection.
func NewLookup(conn *redis.Conn) *Lookup { return &Lookup{conn: conn} }

func (l *Lookup) keys(ticketID string) channels.Keys {
	return channels.KeysOf(l.conn.Prefix(), matchmaking.ChannelOf(ticketID))
}

// Reserve runs open.lua on the ticket's channel, whose label is the name of the ticket's queue.
func (l *Lookup) Reserve(ctx context.Context, r matchmaking.Reservation) (matchmaking.Owner, error) {
	ch := l.keys(r.TicketID)
	keys := append(ch.ForSubscriber(matchmaking.Subscriber), ch.Label())
	args := []string{
		matchmaking.Subscriber, r.Queue, r.Epoch.String(), epochText(r.Replaces), ch.MarkPrefix(), milliseconds(r.TTL),
	}
	rep, err := l.conn.Run(ctx, openScript, keys, args)
	if err != nil {
		return matchmaking.Owner{}, err
	}
	return owner(rep)
}

// epochText returns the argument of scripts for an epoch: empty for none.
func epochText(epoch ulid.ULID) string {
	if epoch.IsZero() {
		return ""
	}
	return epoch.String()
}

// owner decodes what open.lua returns.
func owner(r redis.Reply) (matchmaking.Owner, error) {
	if r.Status != redis.OK {
		return matchmaking.Owner{}, refusals.Error(r)
	}
	d := r.Decoder()
	found := matchmaking.Owner{Epoch: epoch(d), Queue: d.Text()}
	return found, d.End()
}

// Owner reads the epoch and the label of a ticket's channel with one command.
func (l *Lookup) Owner(ctx context.Context, ticketID string) (owner matchmaking.Owner, err error) {
	ch := l.keys(ticketID)
	err = l.conn.Retry(ctx, "life", func(ctx context.Context) error {
		found, err := l.conn.Client().Do(ctx, l.conn.Client().B().Mget().Key(ch.Epoch(), ch.Label()).Build()).ToArray()
		if err != nil {
			return err
		}
		if found[0].IsNil() || found[1].IsNil() {
			return matchmaking.ErrNoTicket
		}
		d := redis.NewDecoder("life", found)
		owner = matchmaking.Owner{Epoch: epoch(d), Queue: d.Text()}
		return d.End()
	})
	return owner, err
}

func epoch(d *redis.Decoder) ulid.ULID {
	text := d.Text()
	if d.Err() != nil {
		return ulid.ULID{}
	}
	e, err := ulid.ParseStrict(text)
	d.Fail(err)
	return e
}
