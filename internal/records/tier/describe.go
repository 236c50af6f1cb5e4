package tier

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/shard"
)

// Description describes the entity caches to nodes and clients: keys are IDs, in the form of package records, and so
// are value IDs.
type Description = shard.Description[string, string, []byte]

// Describe describes the values of a kind. The cache has the kind's name. Errors: ErrKind.
func Describe(kind *records.Kind) (Description, error) {
	if !kind.IsCached() {
		return Description{}, fmt.Errorf("%w: %s", ErrKind, kind.Name)
	}
	return Description{
		Cache:       kind.Name,
		ShardingKey: shard.HashString,
		EntryID:     func(id string) string { return id },
		Keys:        keysCodec{},
		Values:      valuesCodec{limit: kind.MaxBytes},
	}, nil
}

// keysCodec encodes IDs: the length of each as a varint, and the ID.
type keysCodec struct{}

// Append implements shard.Codec.
func (keysCodec) Append(dst []byte, ids []string) ([]byte, error) {
	if len(ids) > shard.MaxKeys {
		return nil, fmt.Errorf("%w: %d IDs, at most %d are allowed", shard.ErrUndecodable, len(ids), shard.MaxKeys)
	}
	for _, id := range ids {
		if err := checkID(id); err != nil {
			return nil, err
		}
		dst = append(binary.AppendUvarint(dst, uint64(len(id))), id...)
	}
	return dst, nil
}

// Decode implements shard.Codec.
func (keysCodec) Decode(data []byte) (ids []string, err error) {
	for d := (decoder{data: data}); d.more(); {
		ids = append(ids, d.id())
		if d.err != nil {
			return nil, d.err
		}
	}
	return ids, nil
}

// valuesCodec encodes values: the ID as keysCodec does, and then the value in the same way.
type valuesCodec struct{ limit int }

// Append implements shard.Codec.
func (c valuesCodec) Append(dst []byte, entries []shard.Entry[string, []byte]) ([]byte, error) {
	size := 0
	for _, e := range entries {
		size += len(e.ID) + len(e.Value) + 2*binary.MaxVarintLen32
	}
	dst = slices.Grow(dst, size)
	for _, e := range entries {
		if err := checkID(e.ID); err != nil {
			return nil, err
		}
		if len(e.Value) > c.limit {
			return nil, fmt.Errorf("%w: a value has %d bytes, at most %d are allowed", shard.ErrUndecodable,
				len(e.Value), c.limit)
		}
		dst = append(binary.AppendUvarint(dst, uint64(len(e.ID))), e.ID...)
		dst = append(binary.AppendUvarint(dst, uint64(len(e.Value))), e.Value...)
	}
	return dst, nil
}

// Decode implements shard.Codec. The values are parts of data.
func (c valuesCodec) Decode(data []byte) (entries []shard.Entry[string, []byte], err error) {
	for d := (decoder{data: data}); d.more(); {
		entries = append(entries, shard.Entry[string, []byte]{ID: d.id(), Value: d.bytes(0, c.limit)})
		if d.err != nil {
			return nil, d.err
		}
	}
	return entries, nil
}

func checkID(id string) error {
	if len(id) == 0 || len(id) > records.MaxQueryBytes {
		return fmt.Errorf("%w: an ID has %d bytes, it must have 1 to %d", shard.ErrUndecodable, len(id),
			records.MaxQueryBytes)
	}
	return nil
}

// decoder decodes the output of the codecs, and nothing else: numbers must be minimally encoded.
type decoder struct {
	data []byte
	n    int // IDs read so far
	err  error
}

func (d *decoder) more() bool { return d.err == nil && len(d.data) > 0 }

// id reads an ID.
func (d *decoder) id() string {
	if d.n++; d.n > shard.MaxKeys && d.err == nil {
		d.err = fmt.Errorf("%w: more than %d IDs", shard.ErrUndecodable, shard.MaxKeys)
	}
	return string(d.bytes(1, records.MaxQueryBytes))
}

// bytes reads a length and that many bytes.
func (d *decoder) bytes(least, limit int) []byte {
	if d.err != nil {
		return nil
	}
	length, size := binary.Uvarint(d.data)
	switch {
	case size <= 0, size > 1 && d.data[size-1] == 0:
		d.err = fmt.Errorf("%w: a length is malformed", shard.ErrUndecodable)
	case length < uint64(least), length > uint64(limit), length > uint64(len(d.data)-size):
		d.err = fmt.Errorf("%w: a length is %d", shard.ErrUndecodable, length)
	default:
		end := size + int(length)
		text := d.data[size:end:end]
		d.data = d.data[end:]
		return text
	}
	return nil
}
