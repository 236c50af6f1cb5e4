package shard

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"

	"github.com/cespare/xxhash/v2"
)

// Description defines how the keys and values of a cache are sharded, named and encoded. Nodes and clients of a cache
// need the same one. Its functions may be called by many goroutines.
type Description[K any, ID comparable, V any] struct {
	// Cache names the cache: it matches NamePattern.
	Cache string
	// ShardingKey returns the number that decides the shard of a key. Keys that are read together can have the same
	// one. HashString and HashBytes make one of keys that have none.
	ShardingKey func(K) uint64
	// EntryID returns the name of a key's value in the answer. It is unique for the keys of one Get that differ.
	EntryID func(K) ID
	// Keys encodes a request to a node, and Values its answer.
	Keys   Codec[[]K]
	Values Codec[[]Entry[ID, V]]
}

// Entry is a value, and the ID of its key.
type Entry[ID comparable, V any] struct {
	ID    ID
	Value V
}

// Codec makes bytes of values, and values of bytes.
type Codec[T any] interface {
	// Append appends the encoded value to dst.
	Append(dst []byte, value T) ([]byte, error)
	// Decode decodes the output of Append. The value may refer to data, which isn't changed afterwards. It must return
	// an error, and not panic, for data of any other form.
	Decode(data []byte) (T, error)
}

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

// NamePattern is the regular expression that names of caches, data centres and hosts match.
const NamePattern = `^[0-9A-Za-z][0-9A-Za-z_.-]{0,63}$`

var namePattern = regexp.MustCompile(NamePattern)

// CheckName returns an error that wraps ErrName unless a name matches NamePattern. what is the named thing, for the
// error.
func CheckName(what, name string) error {
	if namePattern.MatchString(name) {
		return nil
	}
	return fmt.Errorf("%w: %s %q must match %s", ErrName, what, name, NamePattern)
}

// ErrName is wrapped by the errors of names that don't match NamePattern.
var ErrName = errors.New("invalid name")
