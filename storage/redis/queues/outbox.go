package queues

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
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
		err = s.confirmed.written(ctx, s.keys(queue).matched())
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
	if s.removals.await(ctx, queue, entries) {
		return nil
	}
	return s.remove(ctx, queue, entries)
}

// removeWaiting removes the entries that wait for a call of create.lua.
func (s *Store) removeWaiting(ctx context.Context, queue string) error {
	taken := s.removals.takeWaiting(queue)
	err := s.remove(ctx, queue, entriesOf(taken))
	if err == nil {
		finish(taken)
	}
	return err
}

func (s *Store) remove(ctx context.Context, queue string, entries []string) error {
	c := s.conn.Client()
	for batch := range slices.Chunk(entries, maxIDs) {
		err := s.conn.Retry(ctx, "delivered", func(ctx context.Context) error {
			return c.Do(ctx, c.B().Xdel().Key(s.keys(queue).outbox()).Id(batch...).Build()).Error()
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// When tickets are created one at a time, a call to remove two published entries from the outbox costs Redis as much as
// a tenth of all other work. So small numbers of entries wait for a call of create.lua of the same queue, which also
// removes them. Describe removes them first, and so doesn't count them.
const (
	maxTogether     = 16                    // entries that are removed together: more justify a separate call
	removalPatience = 25 * time.Millisecond // after which they are removed by a separate call
)

// removals are published entries that wait for a call. Its methods may be called by many goroutines.
type removals struct {
	mu      sync.Mutex
	waiting map[string][]*removal // by queue
}

// removal is a set of entries that are removed together.
type removal struct {
	entries []string
	done    chan struct{} // closed when they are removed
}

// takeWaiting returns the entries that wait for a call of a queue. After the call has succeeded its caller calls
// finish.
func (r *removals) takeWaiting(queue string) []*removal {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.waiting[queue]
	delete(r.waiting, queue)
	return all
}

// entriesOf returns the entries of removals.
func entriesOf(taken []*removal) (all []string) {
	for _, r := range taken {
		all = append(all, r.entries...)
	}
	return all
}

// finish records that the entries of removals are removed.
func finish(taken []*removal) {
	for _, r := range taken {
		close(r.done)
	}
}

// await waits until a call has removed entries. It returns false at once if they are too many, and if no call has
// removed them in time; a call in progress may still do so.
func (r *removals) await(ctx context.Context, queue string, entries []string) bool {
	if len(entries) > maxTogether {
		return false
	}
	own := r.add(queue, entries)
	defer r.drop(queue, own)
	timer := time.NewTimer(removalPatience)
	defer timer.Stop()
	select {
	case <-own.done:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// add queues entries for the next call, without a time limit.
func (r *removals) add(queue string, entries []string) *removal {
	own := &removal{entries: entries, done: make(chan struct{})}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting == nil {
		r.waiting = map[string][]*removal{}
	}
	r.waiting[queue] = append(r.waiting[queue], own)
	return own
}

func (r *removals) drop(queue string, own *removal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	remaining := slices.DeleteFunc(r.waiting[queue], func(other *removal) bool { return other == own })
	if len(remaining) > 0 {
		r.waiting[queue] = remaining
	} else {
		delete(r.waiting, queue)
	}
}
