package channels

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/pace"
	"github.com/tidemark-dev/tidemark/receipt"
	"github.com/tidemark-dev/tidemark/storage/redis/pubsub"
)

const (
	// receiptKeysKept is the number of keys that the servers on one Redis share: the one that signs, and earlier ones.
	receiptKeysKept = 4
	// receiptKeysEvery is the mean interval at which a server compares its keys with those in Redis.
	receiptKeysEvery = 5 * time.Second
	// lookupEvery is the minimum time between the starts of two comparisons.
	lookupEvery = 250 * time.Millisecond
)

// ReceiptKeys keeps a server's keyring equal to the keys that all servers on one Redis share.
type ReceiptKeys struct {
	// Keyring has the shared keys as read last. It may be used while Run and LookUp run.
	Keyring *receipt.Keyring

	store *Store
	every time.Duration // mean interval of comparisons
	turn  chan struct{} // buffered (capacity 1): whoever compares has sent to it, and owns the fields below
	keys  []receipt.Key // those of Keyring
	began time.Time     // of the last comparison
	last  error         // of the last comparison
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
	return &ReceiptKeys{
		Keyring: ring, store: s, every: receiptKeysEvery, turn: make(chan struct{}, 1), keys: found.keys,
	}, nil
}

// Run compares the keys with those in Redis every few seconds until ctx ends, and when another server has changed them
// or may have done so unnoticed. If Redis has lost the keys, it restores them. If Redis has others, it adopts them,
// signs with the first of them, and adds its own as earlier ones. So all servers converge to one signing key, and
// accept receipts that any of them signed before. It returns nil.
func (k *ReceiptKeys) Run(ctx context.Context) error {
	changed := make(chan struct{}, 1)
	stop := k.store.conn.Listen(receiptTopic(k.store.conn.Prefix()), pubsub.Listener{
		Confirmed: func() { pace.Signal(changed) }, Message: func(string) { pace.Signal(changed) }, Repeats: true,
	})
	defer stop()
	for pace.SleepUntil(ctx, pace.Jitter(k.every), changed) {
		_ = k.LookUp(ctx) // the first of successive failures is logged
	}
	return nil
}

// LookUp compares the keys with those in Redis, as Run does, for a receipt that no key of Keyring has signed: another
// server may sign with a key that this one doesn't have yet. Comparisons start at least 250 ms apart, and one serves
// all calls that came before it started: so any number of forged receipts costs Redis a few commands a second. Errors:
// ErrUnavailable, and that of ctx.
func (k *ReceiptKeys) LookUp(ctx context.Context) error {
	called := time.Now()
	select {
	case k.turn <- struct{}{}:
		defer func() { <-k.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if k.began.Before(called) {
		if !pace.Sleep(ctx, time.Until(k.began.Add(lookupEvery))) {
			return ctx.Err()
		}
		k.compare(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if errors.Is(k.last, fault.ErrUnavailable) {
		return k.last
	}
	return nil // keys that can't be read aren't used: they are logged
}

// compare checks the keys, and logs the first of successive failures. A comparison that ctx ends doesn't count. The
// caller owns the keys.
func (k *ReceiptKeys) compare(ctx context.Context) {
	began := time.Now()
	err := k.check(ctx)
	if ctx.Err() != nil {
		return
	}
	if err != nil && k.last == nil {
		k.store.conn.Logger().WarnContext(ctx, "cannot compare the receipt keys with those in redis", "error", err)
	}
	k.began, k.last = began, err
}

// check is compare without its records.
func (k *ReceiptKeys) check(ctx context.Context) error {
	found, err := k.store.findReceiptKeys(ctx, k.keys)
	if err != nil {
		return err
	}
	if found.restored {
		k.store.countKeyChange(keysRestored)
		k.store.conn.Logger().WarnContext(ctx, "receipt keys were missing in redis, put back")
	}
	all := mergeKeys(found.keys, k.keys)
	if !slices.EqualFunc(all, k.keys, sameKey) {
		if err := k.Keyring.Replace(all...); err != nil {
			return err
		}
		k.store.countKeyChange(keysAdopted)
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
		s.announceReceiptKeys(ctx)
		return foundKeys{keys: offered, restored: true}, nil
	}
	keys, err := parseKeys(text)
	if err != nil {
		return foundKeys{}, fmt.Errorf("the receipt keys at %s: %w", name, err)
	}
	return foundKeys{keys: keys}, nil
}

// CountReceiptKeys returns how many receipt keys the servers on this Redis share. 0: the first server makes one. Errors:
// ErrUnavailable, and one for malformed keys.
func (s *Store) CountReceiptKeys(ctx context.Context) (int, error) {
	var text string
	name := receiptKey(s.conn.Prefix())
	err := s.conn.Retry(ctx, "receipt key", func(ctx context.Context) (err error) {
		text, err = s.conn.Client().Do(ctx, s.conn.Client().B().Get().Key(name).Build()).ToString()
		if rueidis.IsRedisNil(err) {
			err = nil
		}
		return err
	})
	if err != nil || text == "" {
		return 0, err
	}
	keys, err := parseKeys(text)
	if err != nil {
		return 0, fmt.Errorf("the receipt keys at %s: %w", name, err)
	}
	return len(keys), nil
}

// addReceiptKeys replaces the keys in Redis. If another server replaces them at the same time, the next check of the
// one that came first finds its own missing and adds them again.
func (s *Store) addReceiptKeys(ctx context.Context, keys []receipt.Key) error {
	err := s.conn.Retry(ctx, "receipt key", func(ctx context.Context) error {
		set := s.conn.Client().B().Set().Key(receiptKey(s.conn.Prefix())).Value(encodeKeys(keys)).Xx().Build()
		err := s.conn.Client().Do(ctx, set).Error()
		if rueidis.IsRedisNil(err) {
			return nil // it was lost again: the next check restores it
		}
		return err
	})
	if err == nil {
		s.announceReceiptKeys(ctx)
	}
	return err
}

// announceReceiptKeys makes all servers compare their keys. One that misses it does so a few seconds later.
func (s *Store) announceReceiptKeys(ctx context.Context) {
	topic := receiptTopic(s.conn.Prefix())
	_ = s.conn.Client().Do(ctx, s.conn.Client().B().Spublish().Channel(topic).Message("changed").Build()).Error()
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

// How receipt keys change, as the metric shows it.
const (
	keysRestored = "restored" // they were missing
	keysAdopted  = "adopted"  // others were found
)

func (s *Store) countKeyChange(change string) {
	if s.keyChanges != nil {
		s.keyChanges.WithLabelValues(change).Inc()
	}
}
