package redis

import (
	"context"
	"encoding/base64"
	"fmt"

	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/receipt"
)

// SharedReceiptKey gives the key that signs receipts for all servers on this Redis, and makes it where there is
// none. Errors: ErrUnavailable, ErrStorageFull, and where the stored key can't be read.
func (s *Store) SharedReceiptKey(ctx context.Context) (receipt.Key, error) {
	made, err := receipt.GenerateKey()
	if err != nil {
		return nil, fmt.Errorf("make a receipt key: %w", err)
	}
	text := base64.RawURLEncoding.EncodeToString(made)
	name := s.keys.receiptKey()
	err = s.retry(ctx, "receipt key", func(ctx context.Context) error {
		found, err := s.client.Do(ctx, s.client.B().Get().Key(name).Build()).ToString()
		if rueidis.IsRedisNil(err) { // only then: a Redis that is full or read-only refuses to set what is there
			set := s.client.B().Set().Key(name).Value(text).Nx().Get().Build()
			found, err = s.client.Do(ctx, set).ToString()
		}
		if err == nil {
			text = found
		}
		if rueidis.IsRedisNil(err) {
			return nil // it was missing until now
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	key, err := receipt.ParseKey(text)
	if err != nil {
		return nil, fmt.Errorf("the receipt key at %s: %w", name, err)
	}
	return key, nil
}
