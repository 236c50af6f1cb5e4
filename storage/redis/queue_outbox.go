package redis

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/tidemark-dev/tidemark/matchmaking"
)

// Outgoing runs outgoing.lua. Where assignments must be on replicas before they count it waits for that, since their
// director may not have.
func (q *Queues) Outgoing(ctx context.Context, queue string, age time.Duration, limit int) ([]matchmaking.OutboxEntry, error) {
	args := []string{milliseconds(age), strconv.Itoa(limit)}
	rep, err := q.store.Run(ctx, outgoingScript, []string{q.keys(queue).outbox()}, args)
	if err != nil {
		return nil, err
	}
	found, err := decodeOutgoing(rep)
	if err != nil || len(found) == 0 || q.confirmations == 0 {
		return found, err
	}
	err = q.store.Retry(ctx, outgoingScript.Name(), func(ctx context.Context) error {
		return q.store.Session(func(own *Session) error {
			return own.Confirm(ctx, q.confirmations, q.prolongOutbox(own.B(), queue))
		})
	})
	return found, err
}

// decodeOutgoing decodes what outgoing.lua returns.
func decodeOutgoing(r Reply) ([]matchmaking.OutboxEntry, error) {
	if r.Status != OK {
		return nil, queueRefusals.Error(r)
	}
	d := r.Decoder()
	now := d.Micros()
	var entries []matchmaking.OutboxEntry
	d.Each(func(list *Decoder) {
		entry, fields := list.Entry()
		at, err := EntryTime(entry)
		list.Fail(err)
		var epoch ulid.ULID
		if text := fields["epoch"]; text != "" {
			epoch, err = ulid.ParseStrict(text)
			list.Fail(err)
		}
		entries = append(entries, matchmaking.OutboxEntry{
			Entry: entry, TicketID: fields["ticket"], MatchID: fields["match"], Epoch: epoch,
			Content: []byte(fields["content"]), Age: max(now.Sub(at), 0),
		})
	})
	if err := d.End(); err != nil {
		return nil, err
	}
	return entries, nil
}

// Delivered removes entries with XDEL.
func (q *Queues) Delivered(ctx context.Context, queue string, entries []string) error {
	c := q.store.Client()
	for some := range slices.Chunk(entries, maxIDs) {
		err := q.store.Retry(ctx, "delivered", func(ctx context.Context) error {
			return c.Do(ctx, c.B().Xdel().Key(q.keys(queue).outbox()).Id(some...).Build()).Error()
		})
		if err != nil {
			return err
		}
	}
	return nil
}
