package channels

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/channel"
)

// recognizeOwn marks a duplicate as new if an earlier attempt of the same call published it and its reply was lost.
// A message is the call's own if it has the same ID and content and was published since the call began: by Redis's
// clock its age is at most the time that has passed here. If that can't be determined, the message stays a duplicate.
func (s *Store) recognizeOwn(ctx context.Context, r channel.PublishRequest, published []channel.Published,
	begun time.Time) {
	which := firstDuplicates(published)
	if len(which) == 0 {
		return
	}
	ctx, cancel := context.WithDeadline(ctx, begun.Add(s.conn.Timeout()))
	defer cancel()
	keys := make([]string, len(which))
	for n, i := range which {
		keys[n] = s.keys(r.Channel).Message(published[i].Clock)
	}
	found, err := s.readTimed(ctx, s.keys(r.Channel).MessageID(published[which[0]].ID), keys)
	passed := time.Since(begun)
	if err != nil || found.now.IsZero() {
		return
	}
	for n, i := range which {
		at, same := publishedAt(found.values[n], r.Drafts[i])
		age := found.now.Sub(at)
		if same && age >= 0 && age <= passed+time.Millisecond { // both times are cut to milliseconds
			published[i].Duplicate = false
		}
	}
}

// timedValues are values and the time of the Redis that has them.
type timedValues struct {
	now    time.Time // zero if the record doesn't exist
	values []string  // "" for a missing key
}

// readTimed reads values and the time. It computes the time from the absolute and the relative expiry of the key
// record: the command TIME has no key, so that in a Cluster any node could answer it.
func (s *Store) readTimed(ctx context.Context, record string, keys []string) (found timedValues, err error) {
	err = s.conn.Retry(ctx, "read own messages", func(ctx context.Context) error {
		c := s.conn.At(ctx, s.conn.Bulk(), record)
		commands := rueidis.Commands{c.B().Pexpiretime().Key(record).Build(), c.B().Pttl().Key(record).Build()}
		for _, key := range keys {
			commands = append(commands, c.B().Get().Key(key).Build())
		}
		results := c.DoMulti(ctx, commands...)
		ends, err := results[0].AsInt64()
		left, errLeft := results[1].AsInt64()
		if err = errors.Join(err, errLeft); err != nil {
			return err
		}
		found = timedValues{}
		if left > 0 {
			found.now = time.UnixMilli(ends - left)
		}
		for _, result := range results[2:] {
			value, err := result.ToString()
			if err != nil && !rueidis.IsRedisNil(err) {
				return err
			}
			found.values = append(found.values, value)
		}
		return nil
	})
	return found, err
}

// firstDuplicates returns the indices of duplicates whose ID does not occur earlier in the same batch.
func firstDuplicates(published []channel.Published) (which []int) {
	seen := make(map[string]bool, len(published))
	for i, p := range published {
		if p.Duplicate && !seen[p.ID] {
			which = append(which, i)
		}
		seen[p.ID] = true
	}
	return which
}

// publishedAt returns when the message of an envelope was published, if it is this draft's.
func publishedAt(stored string, d channel.Draft) (at time.Time, same bool) {
	text, same := strings.CutPrefix(stored, head(d)+beforeTime)
	ms, err := strconv.ParseInt(strings.TrimSuffix(text, "}"), 10, 64)
	return time.UnixMilli(ms), same && err == nil
}
