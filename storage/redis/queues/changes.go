package queues

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/lua"
	"github.com/tidemark-dev/tidemark/storage/redis/pubsub"
)

var changesScript = lua.Must("queues/changes")

// follower reads the changes of a queue: from notifications, and from the stream if some of these may be missing.
//
// The sequence number of an entry, after the dash of its ID, is one more than that of the previous entry, if the parts
// before the dash are equal. So if a notification begins with the number after that of the follower's last change,
// nothing is missing in between. After any other notification it reads the stream. So notifications may arrive in any
// order, and may be lost, late, or duplicated.
type follower struct {
	store   *Store
	request matchmaking.ChangesRequest // After is the follower's position
	inbox   *inbox
	trimmed time.Time // time of the last removal of changes that were read
	stops   []func()
}

// Follow implements matchmaking.Feed. While the queue has a director, scripts notify only its follower; at other times
// they notify all servers, without the changes.
func (s *Store) Follow(r matchmaking.ChangesRequest) matchmaking.Follower {
	f, k := newFollower(s, r), s.keys(r.Queue)
	f.stops = []func(){
		s.conn.Listen(k.feed(), pubsub.Listener{
			Confirmed: f.inbox.Confirmed, Interrupted: f.inbox.Interrupted, Message: f.inbox.Add, Repeats: true,
		}),
		s.conn.Listen(k.nudges(), pubsub.Listener{Confirmed: f.inbox.Doubt, Message: func(string) { f.inbox.Doubt() },
			Repeats: true}),
	}
	return f
}

// newFollower returns a follower that isn't subscribed. Its first call reads the stream.
func newFollower(s *Store, r matchmaking.ChangesRequest) *follower {
	f := &follower{store: s, request: r, inbox: newInbox(), trimmed: time.Now()}
	f.inbox.Doubt()
	return f
}

// Stop implements matchmaking.Follower.
func (f *follower) Stop() {
	for _, stop := range f.stops {
		stop()
	}
}

// Next implements matchmaking.Follower.
func (f *follower) Next(ctx context.Context, wait time.Duration) (c matchmaking.Changes, err error) {
	texts, missing := f.inbox.Await(ctx, wait)
	if !missing {
		c.Changes, missing = f.apply(texts)
	}
	if missing {
		found, err := f.Changes(ctx)
		if err != nil {
			f.inbox.Doubt()
		}
		if err != nil && len(c.Changes) == 0 {
			return c, err
		}
		c.Changes = append(c.Changes, found...)
	}
	if len(c.Changes) > 0 {
		f.trim(ctx)
	}
	c.After = f.request.After
	return c, nil
}

// apply returns the changes of notifications, as long as each one directly follows the previous one. missing reports
// that the stream must be read for the rest.
func (f *follower) apply(texts []string) (changes []matchmaking.Change, missing bool) {
	for _, text := range texts {
		n, found, err := parseChanges(f.request, text)
		at, first, last := entryIDOf(f.request.After), entryIDOf(n.First), entryIDOf(n.After)
		if err != nil || first.Ms != at.Ms || last.Ms != at.Ms || last.Number+1 != first.Number+uint64(len(found)) {
			return changes, true
		}
		if last.Number <= at.Number {
			continue // it was late
		}
		if first.Number != at.Number+1 {
			return changes, true
		}
		changes, f.request.After = append(changes, found...), strings.Clone(n.After)
	}
	return changes, false
}

// Changes runs changes.lua. If it returns the maximum number of changes, there may be more.
func (f *follower) Changes(ctx context.Context) ([]matchmaking.Change, error) {
	key := f.store.keys(f.request.Queue).changes()
	after := f.request.After
	entry, id, _ := strings.Cut(after, "/")
	d, err := f.store.run(ctx, changesScript, []string{key}, []string{entry, id, strconv.Itoa(f.request.Limit)})
	if err != nil {
		return nil, err
	}
	var entries []map[string]string
	d.Each(func(list *redis.Decoder) {
		name, fields := readEntry(list)
		after, entries = name+"/"+fields["id"], append(entries, fields)
	})
	if err := d.End(); err != nil {
		return nil, err
	}
	changes, err := f.changesOf(ctx, entries)
	if err != nil {
		return nil, err
	}
	if f.request.After = after; len(entries) == f.request.Limit {
		f.inbox.Doubt()
	}
	return changes, nil
}

// changesOf returns the changes of entries. Large tickets are not in their entries: the existing ones are read from
// their keys, one at a time.
func (f *follower) changesOf(ctx context.Context, entries []map[string]string) (changes []matchmaking.Change,
	err error) {
	for _, fields := range entries {
		if value, added := fields["ticket"]; added && value == "" {
			values, err := f.store.values.Primary(ctx, []string{f.store.keys(f.request.Queue).ticket(fields["id"])})
			if err != nil {
				return nil, err
			}
			if !isRecord(values[0]) {
				continue
			}
			fields["ticket"] = string(values[0])
		}
		change, err := parseChange(f.request, fields)
		if err != nil {
			f.store.conn.Logger().ErrorContext(ctx, "cannot read a change, skipping it", "queue", f.request.Queue,
				"ticket", fields["id"], "error", err)
			continue
		}
		changes = append(changes, change)
	}
	return changes, nil
}

// trimEvery is the interval of removals of changes that were read.
const trimEvery = time.Second

// trim removes the changes before the follower's position. The change at the position stays: it shows that no later
// change was removed.
func (f *follower) trim(ctx context.Context) {
	if time.Since(f.trimmed) < trimEvery {
		return
	}
	f.trimmed = time.Now()
	point, _, _ := strings.Cut(f.request.After, "/")
	c, key := f.store.conn.Client(), f.store.keys(f.request.Queue).changes()
	err := c.Do(ctx, c.B().Xtrim().Key(key).Minid().Almost().Threshold(point).Build()).Error()
	if err != nil && ctx.Err() == nil {
		f.store.conn.Logger().DebugContext(ctx, "cannot remove changes that were read", "key", key, "error", err)
	}
}

// nudgeFree is the text of the notification that a director has resigned.
const nudgeFree = "free"

// Watch subscribes to the queue's topic.
func (s *Store) Watch(ctx context.Context, queue string, told func(free bool)) {
	stop := s.conn.Listen(s.keys(queue).nudges(), pubsub.Listener{
		Confirmed: func() { told(true) },
		Message:   func(text string) { told(text == nudgeFree) },
		Repeats:   true,
	})
	defer stop()
	<-ctx.Done()
}
