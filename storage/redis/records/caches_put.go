package records

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/tidemark-dev/tidemark/internal/id"
	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/lua"
)

// The scripts of puts.
var (
	loadScript  = lua.Must("records/cache_load")
	indexScript = lua.Must("records/cache_index")
	storeScript = lua.Must("records/cache_store")
)

// statusSuperseded is the status of a store whose load has ended.
const statusSuperseded redis.Status = "SUPERSEDED"

// entryLife is how much longer an entry lives than its value: the entry is added before the value is stored, while the
// load lasts.
const entryLife = time.Hour

// errEndless is the error of a programming mistake in the caller.
var errEndless = errors.New("an indexed value must have a TTL of at most records.MaxTaggedTTL")

// Put implements records.CacheStore. For the order of its steps see the package comment.
func (s *Caches) Put(ctx context.Context, v records.Value) error {
	token := "" // a value without indexes needs no load
	if v.Indexed() {
		if v.TTL <= 0 || v.TTL > records.MaxTaggedTTL {
			return errEndless
		}
		token = id.New()
		if err := s.beginLoad(ctx, v.Key, token); err != nil {
			return err
		}
		for _, x := range s.indexesOf(&v) {
			if err := s.addEntry(ctx, x, v.Key, v.TTL); err != nil {
				return err // the load ends by itself
			}
		}
	}
	stored := false
	err := s.announced(ctx, []records.CacheKey{v.Key}, func(ctx context.Context) error {
		reply, err := s.values.Run(ctx, storeScript, s.keys(v.Key),
			[]string{token, string(v.Bytes), redis.Milliseconds(v.TTL)})
		if err == nil {
			// A value that isn't stored any more counts as stored, and then overwritten or removed.
			err = cacheRefusals.Check(reply, redis.OK, statusSuperseded)
			stored = reply.Status == redis.OK
		}
		return err
	})
	if err == nil {
		s.settle(ctx, stored, v.Key)
	}
	return err
}

// beginLoad begins to store a value by a put of several steps, and removes an older one.
func (s *Caches) beginLoad(ctx context.Context, key records.CacheKey, token string) error {
	err := s.announced(ctx, []records.CacheKey{key}, func(ctx context.Context) error {
		reply, err := s.values.Run(ctx, loadScript, s.keys(key),
			[]string{token, redis.Milliseconds(records.CacheLoadKind.TTL)})
		if err == nil {
			err = cacheRefusals.Check(reply, redis.OK)
		}
		return err
	})
	if err == nil {
		s.report(key.Kind.Name, key.ID, false)
	}
	return err
}

// keys returns the keys of a value and of its load.
func (s *Caches) keys(key records.CacheKey) []string {
	return []string{s.values.Prefix() + valueKey(key), s.values.Prefix() + loadKey(key)}
}

// indexesOf returns the indexes that a value is in.
func (s *Caches) indexesOf(v *records.Value) (all []index) {
	if v.Prefixed {
		all = append(all, s.prefixIndex(v.Key.Kind))
	}
	for _, tag := range v.Tags {
		all = append(all, s.tagIndex(tag))
	}
	return all
}

// addEntry adds the entry of a value to an index.
func (s *Caches) addEntry(ctx context.Context, x index, key records.CacheKey, ttl time.Duration) error {
	args := []string{x.entry(key), redis.Milliseconds(ttl + entryLife), strconv.Itoa(records.MaxIndexed)}
	reply, err := s.indexes.Run(ctx, indexScript, x.keys(s.indexes.Prefix()), args)
	if err == nil {
		err = cacheRefusals.Check(reply, redis.OK)
	}
	return err
}
