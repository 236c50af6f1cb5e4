package queues

import (
	"context"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/channels"
	"github.com/tidemark-dev/tidemark/storage/redis/lua"
)

var openScript = lua.Must("channels/open")

// Lookup stores the queue of a ticket as the label of the ticket's channel: it implements matchmaking.Lookup. Its
// connection is to the Redis of the channels, which may be a different one. It may be used by many goroutines.
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
	replaces := "" // none
	if !r.Replaces.IsZero() {
		replaces = r.Replaces.String()
	}
	args := []string{
		matchmaking.Subscriber, r.Queue, r.Epoch.String(), replaces, ch.MarkPrefix(), redis.Milliseconds(r.TTL),
	}
	rep, err := l.conn.Run(ctx, openScript, keys, args)
	if err != nil {
		return matchmaking.Owner{}, err
	}
	return owner(rep)
}

// owner decodes the reply of open.lua.
func owner(r redis.Reply) (matchmaking.Owner, error) {
	if r.Status != redis.OK {
		return matchmaking.Owner{}, redis.Refusals{}.Error(r)
	}
	d := r.Decoder()
	found := matchmaking.Owner{Epoch: d.ULID(), Queue: d.Text()}
	return found, d.End()
}

// Owner reads the epoch and the label of a ticket's channel with one command.
func (l *Lookup) Owner(ctx context.Context, ticketID string) (owner matchmaking.Owner, err error) {
	ch := l.keys(ticketID)
	err = l.conn.Retry(ctx, "life", func(ctx context.Context) error {
		c := l.conn.At(ctx, l.conn.Client(), ch.Epoch())
		found, err := c.Do(ctx, c.B().Mget().Key(ch.Epoch(), ch.Label()).Build()).ToArray()
		if err != nil {
			return err
		}
		if found[0].IsNil() || found[1].IsNil() {
			return matchmaking.ErrNoTicket
		}
		d := redis.NewDecoder("life", found)
		epoch, err := channels.ParseEpoch(d.Text())
		d.Fail(err)
		owner = matchmaking.Owner{Epoch: epoch, Queue: d.Text()}
		return d.End()
	})
	return owner, err
}
