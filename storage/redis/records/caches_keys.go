package records

import (
	"github.com/tidemark-dev/tidemark/internal/records"
)

// valueKey returns the key of a value, without prefix.
func valueKey(k records.CacheKey) string { return k.Kind.KeyOf(k.ID) }

// loadKey returns the key of a value that is being stored, in the same slot.
func loadKey(k records.CacheKey) string { return k.Kind.LoadKey(k.ID) }

// index is the keys of an index, and the form of its entries.
type index struct {
	ends, names string // names is empty for a tag
	kind        *records.Kind
}

func (s *Caches) tagIndex(tag string) index {
	return index{ends: records.CacheTagKind.In(s.indexes.PlainKeys()).Key(tag)}
}

func (s *Caches) prefixIndex(kind *records.Kind) index {
	plain := s.indexes.PlainKeys()
	return index{ends: records.CacheEndsKind.In(plain).Key(kind.Name),
		names: records.CachePrefixKind.In(plain).Key(kind.Name), kind: kind}
}

// entry returns the entry of a value: its key, or only its ID in the index of its kind.
func (i index) entry(k records.CacheKey) string {
	if i.kind != nil {
		return k.ID
	}
	return valueKey(k)
}

// key returns the value that an entry names, and whether it is one of a kind in a table: no other key is removed.
func (i index) key(kinds *records.Table, entry string) (records.CacheKey, bool) {
	if i.kind != nil {
		return records.CacheKey{Kind: i.kind, ID: entry}, true
	}
	kind := kinds.Of(entry)
	if kind == nil {
		return records.CacheKey{}, false
	}
	id, ok := kind.IDOf(entry)
	return records.CacheKey{Kind: kind, ID: id}, ok
}

// keys returns the keys of the index with a prefix.
func (i index) keys(prefix string) []string {
	if i.names == "" {
		return []string{prefix + i.ends}
	}
	return []string{prefix + i.ends, prefix + i.names}
}
