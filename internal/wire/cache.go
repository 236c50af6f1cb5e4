package wire

import "encoding/json"

// CacheRequest asks for the values of some IDs.
type CacheRequest struct {
	IDs []string `json:"ids"`
}

// CachedValue is a value of the cache.
type CachedValue struct {
	ID    string          `json:"id"`
	Value json.RawMessage `json:"value"` // a string for the kinds that aren't JSON
}

// CachedValues are the values that the cache has of those requested.
type CachedValues struct {
	Values  []CachedValue `json:"values"`
	Missing []string      `json:"missing"` // not cached
	Left    []string      `json:"left"`    // not looked for, since the answer would be too large: ask again
}

// Invalidation selects the values to remove from the cache: those with tags, or those of a kind whose IDs have a
// prefix.
type Invalidation struct {
	Tags   []string `json:"tags,omitempty"`
	Kind   string   `json:"kind,omitempty"`
	Prefix string   `json:"prefix,omitempty"` // "": all of the kind
}

// Invalidated is the number of values that were removed, or that had the tags before they ended.
type Invalidated struct {
	Values int `json:"values"`
}
