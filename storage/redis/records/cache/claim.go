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
	args := []string{c.Token, milliseconds(c.TTL), string(c.Mode)}
	reply, err := s.values.Run(ctx, claimScript, s.keys(key), args)
	if err != nil {
		return cache.Claimed{}, err
	}
	claimed, err := claimOf(reply)
	if c.Mode == cache.Over && err == nil {
		s.report(key.Kind.Name, key.ID)
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

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// entryLife is how much longer an entry lives than its value: the value is stored after its entry was added, while the claim lasts.
const entryLife = time.Hour

// errUnclaimed is a defect of the caller.
var errUnclaimed = errors.New("a value that is indexed must be claimed before it is stored")

// Store implements cache.Store. The entries come first: the package comment says why.
func (s *Store) Store(ctx context.Context, v cache.Value) error {
	if v.Indexed() && v.Token == "" {
		return errUnclaimed
	}
	if err := s.addEntries(ctx, v); err != nil {
		return err
	}
	reply, err := s.values.Run(ctx, storeScript, s.keys(v.Key), []string{v.Token, string(v.Bytes), milliseconds(v.TTL)})
	if err == nil {
		err = refusals.Check(reply, redis.OK)
	}
	if err == nil {
		s.settle(ctx, v.Key)
	}
	return err
}

// addEntries adds the entries of a value, with one pipeline.
func (s *Store) addEntries(ctx context.Context, v cache.Value) error {
	var indexes []index
	for _, tag := range v.Tags {
		indexes = append(indexes, tagIndex(tag))
	}
	if v.Prefixed {
		indexes = append(indexes, prefixIndex(v.Key.Kind))
	}
	life := milliseconds(min(v.TTL, cache.MaxTaggedTTL) + entryLife)
	calls := make([]redis.Call, len(indexes))
	for i, x := range indexes {
		calls[i] = redis.Call{
			Keys: x.keys(s.indexes.Prefix()), Args: []string{x.entry(v.Key), life, strconv.Itoa(cache.MaxIndexed)},
		}
	}
	for _, result := range s.indexes.RunMany(ctx, indexScript, calls) {
		if result.Err != nil {
			return result.Err
		}
		if err := refusals.Check(result.Reply, redis.OK); err != nil {
			return err
		}
	}
	return nil
}

// End implements cache.Store.
func (s *Store) End(ctx context.Context, key cache.Key, token string, absent time.Duration) error {
	args := []string{token, milliseconds(min(absent, records.CacheLoad.TTL))}
	reply, err := s.values.Run(ctx, endScript, s.keys(key)[1:], args)
	if err == nil {
		err = refusals.Check(reply, redis.OK)
	}
	return err
}
