package queues

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/lua"
)

var outgoingScript = lua.Must("queues/outgoing")

// Outgoing runs outgoing.lua. If assignments need confirmation by replicas, it waits for that: the director may have
// stopped before it did.
func (s *Store) Outgoing(ctx context.Context, queue string, age time.Duration, limit int) ([]matchmaking.OutboxEntry,
	error) {
	args := []string{redis.Milliseconds(age), strconv.Itoa(limit)}
	rep, err := s.conn.Run(ctx, outgoingScript, []string{s.keys(queue).outbox()}, args)
	if err != nil {
		return nil, err
	}
	found, err := decodeOutgoing(rep)
	if err == nil && len(found) > 0 && s.confirmed != nil {
		err = s.confirmed.Written(ctx, s.keys(queue).matched())
	}
	return found, err
}

// decodeOutgoing decodes the reply of outgoing.lua.
func decodeOutgoing(r redis.Reply) ([]matchmaking.OutboxEntry, error) {
	if r.Status != redis.OK {
		return nil, refusals.Error(r)
	}
	d := r.Decoder()
	now := d.Micros()
	var entries []matchmaking.OutboxEntry
	d.Each(func(list *redis.Decoder) {
		name, fields := readEntry(list)
		at, err := timeOfEntry(name)
		list.Fail(err)
		var epoch ulid.ULID
		if text := fields["epoch"]; text != "" {
			epoch, err = ulid.ParseStrict(text)
			list.Fail(err)
		}
		entries = append(entries, matchmaking.OutboxEntry{
			Entry: name, TicketID: fields["ticket"], MatchID: fields["match"], Epoch: epoch,
			Content: []byte(fields["content"]), Age: max(now.Sub(at), 0),
		})
	})
	if err := d.End(); err != nil {
		return nil, err
	}
	return entries, nil
}

// Delivered removes entries with XDEL, or by create.lua if they are few and tickets are being created in the queue.
func (s *Store) Delivered(ctx context.Context, queue string, entries []string) error {
	if s.rides.Await(ctx, queue, entries) {
		return nil
	}
	return s.remove(ctx, queue, entries)
}

// removeRiding removes the entries that wait for a call of create.lua.
func (s *Store) removeRiding(ctx context.Context, queue string) error {
	riding := s.rides.Take(queue)
	err := s.remove(ctx, queue, entriesOf(riding))
	if err == nil {
		removed(riding)
	}
	return err
}

func (s *Store) remove(ctx context.Context, queue string, entries []string) error {
	c := s.conn.Client()
	for some := range slices.Chunk(entries, maxIDs) {
		err := s.conn.Retry(ctx, "delivered", func(ctx context.Context) error {
			return c.Do(ctx, c.B().Xdel().Key(s.keys(queue).outbox()).Id(some...).Build()).Error()
		})
		if err != nil {
			return err
		}
	}
	return nil
}
