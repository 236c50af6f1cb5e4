package cache

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/tidemark-dev/tidemark/records"
	"github.com/tidemark-dev/tidemark/records/cache"
	"github.com/tidemark-dev/tidemark/storage/redis"
)

// Claim implements cache.Store.
func (s *Store) Claim(ctx context.Context, key cache.Key, c cache.Claim) (cache.Claimed, error) {
	claimed, err := s.claim(ctx, key, c)
	if c.Mode == cache.Over && err == nil {
		s.report(key.Kind.Name, key.ID)
	}
	if c.Prefixed && err == nil && claimed.Outcome == cache.Granted {
		_, err = s.addEntry(ctx, prefixIndex(key.Kind), key, cache.MaxTaggedTTL)
	}
	return claimed, err
}

// claim runs the script, which removes the value if the claim is made over it.
func (s *Store) claim(ctx context.Context, key cache.Key, c cache.Claim) (claimed cache.Claimed, err error) {
	run := func(ctx context.Context) error {
		reply, err := s.values.Run(ctx, claimScript, s.keys(key), []string{c.Token, redis.Milliseconds(c.TTL),
			string(c.Mode)})
		if err == nil {
			claimed, err = claimOf(reply)
		}
		return err
	}
	if c.Mode == cache.Over {
		err = s.announced(ctx, []cache.Key{key}, run)
	} else {
		err = run(ctx)
	}
	return claimed, err
}

// keys returns the keys of a value and of the claim on it.
func (s *Store) keys(key cache.Key) []string {
	return []string{s.values.Prefix() + valueKey(key), s.values.Prefix() + loadKey(key)}
}

func claimOf(reply redis.Reply) (cache.Claimed, error) {
	d := reply.Decoder()
	switch reply.Status {
	case redis.OK:
		return cache.Claimed{Outcome: cache.Granted}, d.End()
	case statusStored:
		return cache.Claimed{Outcome: cache.Stored, Bytes: d.Bytes()}, d.End()
	case statusAbsent:
		return cache.Claimed{Outcome: cache.Absent, Left: left(d)}, d.End()
	case statusBusy:
		return cache.Claimed{Outcome: cache.Busy, Left: left(d)}, d.End()
	default:
		return cache.Claimed{}, refusals.Error(reply)
	}
}

func left(d *redis.Decoder) time.Duration { return time.Duration(max(1, d.Int64())) * time.Millisecond }

// entryLife is how much longer an entry lives than its value: the entry is added before the value is stored, while the
// claim lasts.
const entryLife = time.Hour

// errUnclaimed is the error of a programming mistake in the caller.
var errUnclaimed = errors.New("a value with tags must be claimed before it is stored")

// Store implements cache.Store. The entries come first, see the package comment.
func (s *Store) Store(ctx context.Context, v cache.Value) error {
	if len(v.Tags) > 0 && v.Token == "" {
		return errUnclaimed
	}
	for _, tag := range v.Tags {
		ago, err := s.addEntry(ctx, tagIndex(tag), v.Key, v.TTL)
		if err != nil {
			return err
		}
		since := time.Since(v.Began)
		if drift := since / 1000; ago >= 0 && since+drift >= ago { // tolerance for clock differences
			return cache.ErrSuperseded // the tag was invalidated after the value may have been read
		}
	}
	err := s.announced(ctx, []cache.Key{v.Key}, func(ctx context.Context) error {
		reply, err := s.values.Run(ctx, storeScript, s.keys(v.Key),
			[]string{v.Token, string(v.Bytes), redis.Milliseconds(v.TTL)})
		if err == nil {
			err = refusals.Check(reply, redis.OK)
		}
		return err
	})
	if err == nil {
		s.settle(ctx, v.Key)
	}
	return err
}

// addEntry adds the entry of a value to an index. It returns how long ago the index was invalidated, or -1 if that is
// long ago.
func (s *Store) addEntry(ctx context.Context, x index, key cache.Key, ttl time.Duration) (ago time.Duration,
	err error) {
	life := redis.Milliseconds(min(ttl, cache.MaxTaggedTTL) + entryLife)
	args := []string{x.entry(key), life, strconv.Itoa(cache.MaxIndexed)}
	reply, err := s.indexes.Run(ctx, indexScript, x.keys(s.indexes.Prefix()), args)
	if err != nil {
		return 0, err
	}
	if reply.Status != redis.OK {
		return 0, refusals.Error(reply)
	}
	d := reply.Decoder()
	us := d.Int64()
	return time.Duration(us) * time.Microsecond, d.End()
}

// End implements cache.Store.
func (s *Store) End(ctx context.Context, key cache.Key, token string, absent time.Duration) error {
	args := []string{token, redis.Milliseconds(min(absent, records.CacheLoad.TTL))}
	reply, err := s.values.Run(ctx, endScript, s.keys(key)[1:], args)
	if err == nil {
		err = refusals.Check(reply, redis.OK)
	}
	return err
}
