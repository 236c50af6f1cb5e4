package redis

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/oklog/ulid/v2"

	"github.com/tidemark-dev/tidemark/matchmaking"
)

// Outgoing runs outgoing.lua. Where assignments must be on replicas before they count it waits for that, since their
// director may not have.
func (q *Queues) Outgoing(ctx context.Context, queue string, age time.Duration, limit int) ([]matchmaking.OutboxEntry, error) {
	args := []string{milliseconds(age), strconv.Itoa(limit)}
	rep, err := q.store.exec(ctx, outgoingScript, []string{q.keys(queue).outbox()}, args)
	if err != nil {
		return nil, err
	}
	found, err := rep.outgoing()
	if err != nil || len(found) == 0 || q.confirmations == 0 {
		return found, err
	}
	err = q.store.retry(ctx, outgoingScript.Name(), func(ctx context.Context) error {
		return q.store.bulk.Dedicated(func(c rueidis.DedicatedClient) error {
			return q.touched(ctx, c, q.prolongOutbox(c, queue))
		})
	})
	return found, err
}

// outgoing decodes what outgoing.lua returns.
func (r reply) outgoing() ([]matchmaking.OutboxEntry, error) {
	if r.status != statusOK {
		return nil, r.refusal()
	}
	d := r.decoder()
	now, list := d.micros(), d.list()
	entries := make([]matchmaking.OutboxEntry, 0, len(list.values))
	for len(list.values) > 0 && list.err == nil {
		entry, fields := list.entry()
		at, err := entryTime(entry)
		list.fail(err)
		var epoch ulid.ULID
		if text := fields["epoch"]; text != "" {
			epoch, err = ulid.ParseStrict(text)
			list.fail(err)
		}
		entries = append(entries, matchmaking.OutboxEntry{
			Entry: entry, TicketID: fields["ticket"], MatchID: fields["match"], Epoch: epoch,
			Content: []byte(fields["content"]), Age: max(now.Sub(at), 0),
		})
	}
	d.fail(list.err)
	if err := d.end(); err != nil {
		return nil, err
	}
	return entries, nil
}

// entry decodes an entry of a stream: its ID and its fields.
func (d *decoder) entry() (string, map[string]string) {
	e := d.list()
	id, list := e.text(), e.list()
	fields := make(map[string]string, len(list.values)/2)
	for len(list.values) > 0 && list.err == nil {
		name := list.text()
		fields[name] = list.text()
	}
	d.fail(list.err)
	d.fail(e.end())
	return id, fields
}

// entryTime is when an entry was added to a stream, to the millisecond.
func entryTime(id string) (time.Time, error) {
	text, _, _ := strings.Cut(id, "-")
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("entry %q: %w", id, err)
	}
	return time.UnixMilli(ms).UTC(), nil
}

// Delivered removes entries with XDEL.
func (q *Queues) Delivered(ctx context.Context, queue string, entries []string) error {
	c := q.store.client
	for some := range slices.Chunk(entries, maxIDs) {
		err := q.store.retry(ctx, "delivered", func(ctx context.Context) error {
			return c.Do(ctx, c.B().Xdel().Key(q.keys(queue).outbox()).Id(some...).Build()).Error()
		})
		if err != nil {
			return err
		}
	}
	return nil
}
