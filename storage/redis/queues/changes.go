package queues

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
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
	f := newFollower(s, r)
	for topic, l := range f.listeners() {
		f.stops = append(f.stops, s.conn.Listen(topic, l))
	}
	return f
}

// listeners returns the listeners of the follower by their topics.
func (f *follower) listeners() map[string]pubsub.Listener {
	k, in := f.store.keys(f.request.Queue), f.inbox
	return map[string]pubsub.Listener{
		k.feed():   {Confirmed: in.Confirmed, Interrupted: in.Interrupted, Message: in.Add, Repeats: true},
		k.nudges(): {Confirmed: in.MarkIncomplete, Message: func(string) { in.MarkIncomplete() }, Repeats: true},
	}
}

// newFollower returns a follower that isn't subscribed. Its first call reads the stream.
func newFollower(s *Store, r matchmaking.ChangesRequest) *follower {
	f := &follower{store: s, request: r, inbox: newInbox(), trimmed: time.Now()}
	f.inbox.MarkIncomplete()
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
			f.inbox.MarkIncomplete()
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
		f.inbox.MarkIncomplete()
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

// DropChanges trims the stream to nothing. It keeps the ID of the last entry, so that a follower notices.
func (s *Store) DropChanges(ctx context.Context, queue string) error {
	c, key := s.conn.Client(), s.keys(queue).changes()
	return s.conn.Retry(ctx, "drop changes", func(ctx context.Context) error {
		return c.Do(ctx, c.B().Xtrim().Key(key).Maxlen().Threshold("0").Build()).Error()
	})
}

// nudgeFree is the text of the notification that a director has resigned.
const nudgeFree = "free"

// Watch subscribes to the queue's topic.
func (s *Store) Watch(ctx context.Context, queue string, notify func(free bool)) {
	stop := s.conn.Listen(s.keys(queue).nudges(), pubsub.Listener{
		Confirmed: func() { notify(true) },
		Message:   func(text string) { notify(text == nudgeFree) },
		Repeats:   true,
	})
	defer stop()
	<-ctx.Done()
}

// entryID is the parsed ID of an entry, "<ms>-<number>".
type entryID struct{ Ms, Number uint64 }

// entryIDOf parses the ID of the entry of a position, "<entry>/<ticket's ID>", or of an entry. Invalid numbers are
// zero.
func entryIDOf(point string) (id entryID) {
	entry, _, _ := strings.Cut(point, "/")
	ms, number, _ := strings.Cut(entry, "-")
	id.Ms, _ = strconv.ParseUint(ms, 10, 64)
	id.Number, _ = strconv.ParseUint(number, 10, 64)
	return id
}

// parseChange parses an entry of the changes: id, expires and ticket of a new ticket; id and released of a released
// one; id alone of a cancelled one. Errors: errMalformed.
func parseChange(r matchmaking.ChangesRequest, fields map[string]string) (matchmaking.Change, error) {
	id, ok := fields["id"]
	if !ok {
		return matchmaking.Change{}, fmt.Errorf("%w: a change without a ticket", errMalformed)
	}
	if _, released := fields["released"]; released {
		return matchmaking.Change{Released: id}, nil
	}
	value, ok := fields["ticket"]
	if !ok {
		return matchmaking.Change{Cancelled: id}, nil
	}
	return added(r, id, fields["expires"], value)
}

// added returns the change of a new ticket.
func added(r matchmaking.ChangesRequest, id, expires, value string) (matchmaking.Change, error) {
	ms, err := strconv.ParseInt(expires, 10, 64)
	if err != nil {
		return matchmaking.Change{}, fmt.Errorf("%w: expires: %w", errMalformed, err)
	}
	t, err := parseRecord(r.Queue, id, []byte(value))
	if err != nil {
		return matchmaking.Change{}, err
	}
	t.KeepOnly(r.Fields)
	t.Status, t.Expires = matchmaking.Searching, time.UnixMilli(ms).UTC()
	return matchmaking.Change{Added: &t}, nil
}

// Special sizes in a notification of changes for a cancelled or released ticket.
const (
	cancelledSize = -1
	releasedSize  = -2
)

// changeNews is the position of a notification's changes in the stream.
type changeNews struct {
	First string // the entry of the first change
	After string // the position after the last one
}

// parseChanges parses a notification of changes: "<first> <after> ", and "<id> <expires, ms> <size> <ticket of that
// many bytes>" for each, one after the other. Errors: errNotification, errMalformed.
func parseChanges(r matchmaking.ChangesRequest, text string) (n changeNews, changes []matchmaking.Change, err error) {
	n.First, text, _ = strings.Cut(text, " ")
	if n.After, text, _ = strings.Cut(text, " "); text == "" {
		return changeNews{}, nil, errNotification
	}
	for text != "" {
		var parts [3]string
		if parts, text, err = cut(text); err != nil {
			return changeNews{}, nil, err
		}
		id := strings.Clone(parts[0]) // a copy, so that the whole notification isn't retained
		size, err := strconv.Atoi(parts[2])
		if err != nil || size < releasedSize || size > len(text) {
			return changeNews{}, nil, fmt.Errorf("%w: size %q", errNotification, parts[2])
		}
		change := matchmaking.Change{}
		switch size {
		case cancelledSize:
			change.Cancelled = id
		case releasedSize:
			change.Released = id
		default:
			if change, err = added(r, id, parts[1], text[:size]); err != nil {
				return changeNews{}, nil, err
			}
			text = text[size:]
		}
		changes = append(changes, change)
	}
	return n, changes, nil
}

// errNotification is the error of an unreadable notification.
var errNotification = errors.New("malformed notification")

// cut returns the first three words of a text, and the rest. Errors: errNotification.
func cut(text string) (words [3]string, rest string, err error) {
	for i := range words {
		word, after, found := strings.Cut(text, " ")
		if !found || word == "" {
			return words, "", errNotification
		}
		words[i], text = word, after
	}
	return words, text, nil
}
