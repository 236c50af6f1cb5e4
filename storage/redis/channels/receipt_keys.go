package channels

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/internal/pace"
	"github.com/tidemark-dev/tidemark/receipt"
)

const (
	// receiptKeysKept is the number of keys that the servers on one Redis share: the one that signs, and earlier ones.
	receiptKeysKept = 4
	// receiptKeysEvery is the mean interval at which a server compares its keys with those in Redis.
	receiptKeysEvery = 5 * time.Second
)

// ReceiptKeys keeps a server's keyring equal to the keys that all servers on one Redis share.
type ReceiptKeys struct {
	// Keyring has the shared keys as read last. It may be used while Run runs.
	Keyring *receipt.Keyring

	store   *Store
	keys    []receipt.Key // those of Keyring; owned by the goroutine of Run
	failing bool          // the last check failed; owned by the goroutine of Run
}

// ReceiptKeys reads the keys that sign and verify receipts for all servers on this Redis, and creates one if there is
// none. Errors: ErrUnavailable, ErrStorageFull, and one for malformed keys.
func (s *Store) ReceiptKeys(ctx context.Context) (*ReceiptKeys, error) {
	made, err := receipt.GenerateKey()
	if err != nil {
		return nil, err
	}
	found, err := s.findReceiptKeys(ctx, []receipt.Key{made})
	if err != nil {
		return nil, err
	}
	ring, err := receipt.NewKeyring(found.keys...)
	if err != nil {
		return nil, err
	}
	if found.restored {
		s.conn.Logger().InfoContext(ctx, "no receipt key in redis, made one")
	}
	return &ReceiptKeys{Keyring: ring, store: s, keys: found.keys}, nil
}

// Run compares the keys with those in Redis every few seconds until ctx ends. If Redis has lost the keys, it restores
// them. If Redis has others, it adopts them, signs with the first of them, and adds its own as earlier ones. So all
// servers converge to one signing key, and accept receipts that any of them signed before. It returns nil.
func (k *ReceiptKeys) Run(ctx context.Context) error {
	for pace.Sleep(ctx, pace.Jitter(receiptKeysEvery)) {
		k.compare(ctx)
	}
	return nil
}

// compare checks the keys, and logs the first of successive failures.
func (k *ReceiptKeys) compare(ctx context.Context) {
	err := k.check(ctx)
	if err != nil && !k.failing && ctx.Err() == nil {
		k.store.conn.Logger().WarnContext(ctx, "cannot compare the receipt keys with those in redis", "error", err)
	}
	k.failing = err != nil
}

func (k *ReceiptKeys) check(ctx context.Context) error {
	found, err := k.store.findReceiptKeys(ctx, k.keys)
	if err != nil {
		return err
	}
	if found.restored {
		k.store.countKeyChange("restored")
		k.store.conn.Logger().WarnContext(ctx, "receipt keys were missing in redis, put back")
	}
	all := mergeKeys(found.keys, k.keys)
	if !slices.EqualFunc(all, k.keys, sameKey) {
		if err := k.Keyring.Replace(all...); err != nil {
			return err
		}
		k.store.countKeyChange("adopted")
		k.store.conn.Logger().WarnContext(ctx, "other receipt keys found in redis, adopted",
			"another_signs", !sameKey(all[0], k.keys[0]), "accepted", len(all))
		k.keys = all
	}
	if len(all) > len(found.keys) {
		return k.store.addReceiptKeys(ctx, all)
	}
	return nil
}

// mergeKeys returns the stored keys, and then those of mine that they lack, up to receiptKeysKept.
func mergeKeys(stored, mine []receipt.Key) []receipt.Key {
	all := slices.Clone(stored)
	for _, key := range mine {
		if len(all) < receiptKeysKept &&
			!slices.ContainsFunc(all, func(k receipt.Key) bool { return sameKey(k, key) }) {
			all = append(all, key)
		}
	}
	return all
}

func sameKey(a, b receipt.Key) bool { return slices.Equal(a, b) }

// foundKeys is the receipt keys of a Redis.
type foundKeys struct {
	keys     []receipt.Key // at least one
	restored bool          // there were none, and the offered ones were written
}

// findReceiptKeys reads the keys in Redis, or writes the offered ones if there are none.
func (s *Store) findReceiptKeys(ctx context.Context, offered []receipt.Key) (foundKeys, error) {
	var text string
	restored := false
	name, offer := receiptKey(s.conn.Prefix()), encodeKeys(offered)
	err := s.conn.Retry(ctx, "receipt key", func(ctx context.Context) (err error) {
		text, err = s.conn.Client().Do(ctx, s.conn.Client().B().Get().Key(name).Build()).ToString()
		if rueidis.IsRedisNil(err) { // only then: a full or read-only Redis refuses SET although the keys exist
			set := s.conn.Client().B().Set().Key(name).Value(offer).Nx().Get().Build()
			text, err = s.conn.Client().Do(ctx, set).ToString()
		}
		if rueidis.IsRedisNil(err) {
			restored, err = true, nil
		}
		return err
	})
	switch {
	case err != nil:
		return foundKeys{}, err
	case restored:
		return foundKeys{keys: offered, restored: true}, nil
	}
	keys, err := parseKeys(text)
	if err != nil {
		return foundKeys{}, fmt.Errorf("the receipt keys at %s: %w", name, err)
	}
	return foundKeys{keys: keys}, nil
}

// addReceiptKeys replaces the keys in Redis. If another server replaces them at the same time, the next check of the
// one that came first finds its own missing and adds them again.
func (s *Store) addReceiptKeys(ctx context.Context, keys []receipt.Key) error {
	return s.conn.Retry(ctx, "receipt key", func(ctx context.Context) error {
		set := s.conn.Client().B().Set().Key(receiptKey(s.conn.Prefix())).Value(encodeKeys(keys)).Xx().Build()
		err := s.conn.Client().Do(ctx, set).Error()
		if rueidis.IsRedisNil(err) {
			return nil // it was lost again: the next check restores it
		}
		return err
	})
}

func encodeKeys(keys []receipt.Key) string {
	texts := make([]string, len(keys))
	for i, key := range keys {
		texts[i] = key.Encode()
	}
	return strings.Join(texts, ",")
}

func parseKeys(text string) ([]receipt.Key, error) {
	var keys []receipt.Key
	for part := range strings.SplitSeq(text, ",") {
		key, err := receipt.ParseKey(part)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
}

func (s *Store) countKeyChange(change string) {
	if s.keyChanges != nil {
		s.keyChanges.WithLabelValues(change).Inc()
	}
}
