package records

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/lua"
)

var unindexScript = lua.Must("records/cache_unindex")

// cachePage is how many entries an invalidation reads, and values it removes, at once.
const cachePage = 500

// Invalidate implements records.CacheStore.
func (s *Caches) Invalidate(ctx context.Context, kind *records.Kind, ids []string) error {
	keys := make([]records.CacheKey, len(ids))
	for i, id := range ids {
		keys[i] = records.CacheKey{Kind: kind, ID: id}
	}
	return s.remove(ctx, true, keys)
}

// remove removes values and ends their loads, with one pipeline to each node. The load ends first: see the package
// comment. They are two commands, since one with both keys would fail while their slot is moved. For own see settle.
func (s *Caches) remove(ctx context.Context, own bool, keys []records.CacheKey) error {
	var errs []error
	for some := range slices.Chunk(keys, cachePage) {
		errs = append(errs, s.announced(ctx, some, func(ctx context.Context) error { return s.removeEach(ctx, some) }))
	}
	s.settle(ctx, own, keys...)
	return errors.Join(errs...)
}

func (s *Caches) removeEach(ctx context.Context, keys []records.CacheKey) error {
	client, prefix := s.values.Client(), s.values.Prefix()
	errs := s.values.RetryEach(ctx, "invalidate", len(keys), func(ctx context.Context, pending []int) []error {
		var commands rueidis.Commands
		for _, i := range pending {
			commands = append(commands,
				client.B().Del().Key(prefix+loadKey(keys[i])).Build(),
				client.B().Del().Key(prefix+valueKey(keys[i])).Build())
		}
		results, errs := client.DoMulti(ctx, commands...), make([]error, len(pending))
		for i := range pending {
			if errs[i] = results[2*i].Error(); errs[i] == nil {
				errs[i] = results[2*i+1].Error()
			}
		}
		return errs
	})
	return errors.Join(errs...)
}

// InvalidateTag implements records.CacheStore.
func (s *Caches) InvalidateTag(ctx context.Context, tag string) (n int, err error) {
	x := s.tagIndex(tag)
	key := s.indexes.Prefix() + x.ends
	last, err := s.scored(ctx, func(b rueidis.Builder) rueidis.Completed {
		return b.Zrange().Key(key).Min("0").Max("0").Rev().Withscores().Build()
	})
	if err != nil || len(last) == 0 {
		return 0, err
	}
	// Pages begin at the score at which the last one ended, since several entries can have it.
	for from := "-inf"; ; {
		page, err := s.scored(ctx, func(b rueidis.Builder) rueidis.Completed {
			return b.Zrange().Key(key).Min(from).Max(text(last[0].Score)).Byscore().Limit(0,
				cachePage).Withscores().Build()
		})
		if err != nil {
			return n, err
		}
		removed, err := s.removePage(ctx, x, page)
		if err != nil {
			return n, err
		}
		n += removed
		if len(page) < cachePage || text(page[len(page)-1].Score) == from {
			return n, nil
		}
		from = text(page[len(page)-1].Score)
	}
}

// InvalidatePrefix implements records.CacheStore.
func (s *Caches) InvalidatePrefix(ctx context.Context, kind *records.Kind, prefix string) (n int, err error) {
	x := s.prefixIndex(kind)
	from, to := "["+prefix, "("+prefix+"\xff" // no ID has the byte 0xFF
	for {
		page, err := s.named(ctx, x, from, to)
		if err != nil || len(page) == 0 {
			return n, err
		}
		removed, err := s.removePage(ctx, x, page)
		if err != nil {
			return n, err
		}
		n += removed
		from = "(" + page[len(page)-1].Member
	}
}

// removePage removes values, and then their entries. It returns how many they were. Entries of unknown kinds stay,
// since servers with another table have stored their values; they end by their scores.
func (s *Caches) removePage(ctx context.Context, x index, page []rueidis.ZScore) (n int, err error) {
	var keys []records.CacheKey
	args := make([]string, 0, 2*len(page))
	for _, entry := range page {
		if key, ok := x.key(s.kinds, entry.Member); ok {
			keys = append(keys, key)
			args = append(args, entry.Member, text(entry.Score))
		}
	}
	if len(keys) == 0 {
		return 0, nil
	}
	if err := s.remove(ctx, false, keys); err != nil {
		return 0, err
	}
	reply, err := s.indexes.Run(ctx, unindexScript, x.keys(s.indexes.Prefix()), args)
	if err == nil {
		err = cacheRefusals.Check(reply, redis.OK)
	}
	return len(keys), err
}

func text(score float64) string { return strconv.FormatFloat(score, 'f', 0, 64) }

// scored runs a command that returns entries with scores.
func (s *Caches) scored(ctx context.Context, command func(rueidis.Builder) rueidis.Completed) (found []rueidis.ZScore,
	err error) {
	err = s.indexes.Retry(ctx, "read an index", func(ctx context.Context) (err error) {
		client := s.indexes.Client()
		found, err = client.Do(ctx, command(client.B())).AsZScores()
		return err
	})
	return found, err
}

// named returns a page of entries by their text, with their scores. An entry without one has ended.
func (s *Caches) named(ctx context.Context, x index, from, to string) (page []rueidis.ZScore, err error) {
	keys := x.keys(s.indexes.Prefix())
	err = s.indexes.Retry(ctx, "read an index", func(ctx context.Context) error {
		client := s.indexes.Client()
		names, err := client.Do(ctx, client.B().Zrange().Key(keys[1]).Min(from).Max(to).Bylex().Limit(0,
			cachePage).Build()).AsStrSlice()
		if err != nil || len(names) == 0 {
			page = nil
			return err
		}
		scores, err := client.Do(ctx, client.B().Zmscore().Key(keys[0]).Member(names...).Build()).ToArray()
		if err != nil {
			return err
		}
		page = make([]rueidis.ZScore, len(names))
		for i, name := range names {
			score, err := scores[i].AsFloat64()
			if err != nil {
				score = -1
			}
			page[i] = rueidis.ZScore{Member: name, Score: score}
		}
		return nil
	})
	return page, err
}
