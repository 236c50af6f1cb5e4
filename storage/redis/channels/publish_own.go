package channels

import (
	"context"

	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/channel"
)

// recognizeOwn marks a duplicate as new if an earlier attempt of the same call published it and its reply was lost: the
// stored message is of one of the attempts' writes. If it can't be read, it stays a duplicate.
func (s *Store) recognizeOwn(ctx context.Context, name string, published []channel.Published, attempts [][]message) {
	which := firstDuplicates(published)
	if len(which) == 0 {
		return
	}
	keys := make([]string, len(which))
	for n, i := range which {
		keys[n] = s.keys(name).Message(published[i].Clock)
	}
	values, err := s.readEach(ctx, keys)
	if err != nil {
		return
	}
	for n, i := range which {
		stored, err := parseEnvelope(values[n], published[i].Clock)
		if err != nil {
			continue
		}
		for _, messages := range attempts {
			if messages[i].write == stored.Write {
				published[i].Duplicate, published[i].Differs = false, false
			}
		}
	}
}

// readEach reads values of one channel; nil for a missing key.
func (s *Store) readEach(ctx context.Context, keys []string) (values [][]byte, err error) {
	err = s.conn.Retry(ctx, "read own messages", func(ctx context.Context) error {
		c := s.conn.At(ctx, s.conn.Bulk(), keys[0])
		commands := make(rueidis.Commands, len(keys))
		for n, key := range keys {
			commands[n] = c.B().Get().Key(key).Build()
		}
		values = values[:0]
		for _, result := range c.DoMulti(ctx, commands...) {
			value, err := result.AsBytes()
			if err != nil && !rueidis.IsRedisNil(err) {
				return err
			}
			values = append(values, value)
		}
		return nil
	})
	return values, err
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
