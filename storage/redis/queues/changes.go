package queues

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/lua"
	"github.com/tidemark-dev/tidemark/storage/redis/pubsub"
	"github.com/tidemark-dev/tidemark/storage/redis/queues/internal/record"
)

var changesScript = lua.Must("queues/changes")

// feed is how far the changes of a queue were read.
type feed struct {
	after   string    // the point after what was read last
	read    time.Time // when
	trimmed time.Time // when what was read was removed
}

// sure is how long after a read the next one need not check for missing changes. Changes are trimmed by their reader, so
// that only a reader that was delayed can miss some, or one whose Redis has failed over.
const sure = time.Second

// Changes reads with XREAD. It runs changes.lua if some changes may be missing, and removes changes that were read every
// second.
func (s *Store) Changes(ctx context.Context, r matchmaking.ChangesRequest) (matchmaking.Changes, error) {
	key := s.keys(r.Queue).changes()
	last := s.takeFeed(r.Queue)
	certain := last.after == r.After && time.Since(last.read) < sure
	var entries []rueidis.XRangeEntry
	err := s.conn.Retry(ctx, "changes", func(ctx context.Context) (err error) {
		entries, err = s.readStream(ctx, key, r)
		certain = certain && err == nil
		return err
	})
	if err != nil {
		return matchmaking.Changes{}, err
	}
	if !certain || len(entries) == 0 || len(entries) == r.Limit {
		rep, err := s.conn.Run(ctx, changesScript, []string{key}, []string{r.After})
		if err != nil {
			return matchmaking.Changes{}, err
		}
		if err := refusals.Check(rep, redis.OK); err != nil {
			return matchmaking.Changes{}, err
		}
	}
	found := matchmaking.Changes{After: r.After}
	for _, e := range entries {
		found.After = e.ID
		fields, err := s.withTicket(ctx, r.Queue, e.FieldValues)
		if err != nil {
			return matchmaking.Changes{}, err
		}
		if fields == nil {
			continue
		}
		change, err := record.ParseChange(r, fields)
		if err != nil {
			s.conn.Logger().ErrorContext(ctx, "cannot read a change, skipping it", "queue", r.Queue, "entry", e.ID, "error", err)
			continue
		}
		found.Changes = append(found.Changes, change)
	}
	last.after, last.read = found.After, time.Now()
	s.trim(ctx, key, &last, len(entries) > 0)
	s.putFeed(r.Queue, last)
	return found, nil
}

// withTicket returns the fields of an entry with its ticket. A large ticket isn't in the entry: it is read from its key, and
// nil is returned if it has ended.
func (s *Store) withTicket(ctx context.Context, queue string, fields map[string]string) (map[string]string, error) {
	if value, ok := fields["ticket"]; !ok || value != "" {
		return fields, nil
	}
	values, err := s.readAll(ctx, []string{s.keys(queue).ticket(fields["id"])})
	if err != nil || !record.Is(values[0]) {
		return nil, err
	}
	fields["ticket"] = string(values[0])
	return fields, nil
}

// takeFeed returns how far a queue was read, and resets it until putFeed: after a failed read nothing is certain.
func (s *Store) takeFeed(queue string) feed {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.feeds[queue]
	s.feeds[queue] = feed{trimmed: last.trimmed}
	return last
}

func (s *Store) putFeed(queue string, last feed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.feeds[queue] = last
}

// trimEvery is how often changes that were read are removed.
const trimEvery = time.Second

// trim removes the changes before the point, if some were just read. The one at the point stays: it shows that
// nothing after it is gone.
func (s *Store) trim(ctx context.Context, key string, last *feed, found bool) {
	if !found || time.Since(last.trimmed) < trimEvery {
		return
	}
	last.trimmed = time.Now()
	c := s.conn.Client()
	err := c.Do(ctx, c.B().Xtrim().Key(key).Minid().Almost().Threshold(last.after).Build()).Error()
	if err != nil && ctx.Err() == nil {
		s.conn.Logger().DebugContext(ctx, "cannot remove changes that were read", "key", key, "error", err)
	}
}

// readStream reads the entries of a stream after a point.
func (s *Store) readStream(ctx context.Context, key string, r matchmaking.ChangesRequest) ([]rueidis.XRangeEntry, error) {
	found, err := s.conn.Client().Do(ctx, s.conn.Client().B().Xread().Count(int64(r.Limit)).Streams().Key(key).Id(r.After).Build()).AsXRead()
	if err != nil && !rueidis.IsRedisNil(err) {
		return nil, err
	}
	return found[key], nil
}

// nudgeFree is the text of a nudge of a director that has resigned.
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
