package cache

import "encoding/json"

// Codec encodes values for Redis.
type Codec[T any] interface {
	Encode(value T) ([]byte, error)
	Decode(data []byte) (T, error) // must neither change nor keep data
}

// JSON is the default codec.
type JSON[T any] struct{}

// Encode implements Codec.
func (JSON[T]) Encode(value T) ([]byte, error) { return json.Marshal(value) }

// Decode implements Codec.
func (JSON[T]) Decode(data []byte) (value T, err error) {
	err = json.Unmarshal(data, &value)
	return value, err
}

// Raw keeps bytes as they are.
type Raw struct{}

// Encode implements Codec.
func (Raw) Encode(value []byte) ([]byte, error) { return value, nil }

// Decode implements Codec.
func (Raw) Decode(data []byte) ([]byte, error) { return append([]byte{}, data...), nil }
