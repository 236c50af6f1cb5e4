package shard

import (
	"encoding/json"

	"github.com/cespare/xxhash/v2"
)

// HashString returns a sharding key for keys that have none: their xxhash, which spreads them evenly.
func HashString(key string) uint64 { return xxhash.Sum64String(key) }

// HashBytes is HashString for bytes.
func HashBytes(key []byte) uint64 { return xxhash.Sum64(key) }

// JSON returns a codec that encodes values as encoding/json does.
func JSON[T any]() Codec[T] { return jsonCodec[T]{} }

type jsonCodec[T any] struct{}

func (jsonCodec[T]) Append(dst []byte, value T) ([]byte, error) {
	data, err := json.Marshal(value)
	return append(dst, data...), err
}

func (jsonCodec[T]) Decode(data []byte) (value T, err error) {
	err = json.Unmarshal(data, &value)
	return value, err
}
