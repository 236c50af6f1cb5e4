package jwt

import (
	"slices"
	"sync"
	"sync/atomic"
)

// keyring holds the keys of all sources: files and sets.
type keyring struct {
	mu       sync.Mutex
	bySource [][]*key
	byID     atomic.Pointer[map[string][]*key]
}

func newKeyring(sources int) *keyring {
	r := &keyring{bySource: make([][]*key, sources)}
	r.byID.Store(&map[string][]*key{})
	return r
}

// find returns the keys that may verify a token: those with its key's ID, and those without an ID. known reports
// whether there is one with the ID.
func (r *keyring) find(id, algorithm string) (keys []*key, known bool) {
	byID := *r.byID.Load()
	lists := [][]*key{byID[""]}
	if id != "" {
		lists = [][]*key{byID[id], byID[""]}
	}
	for _, k := range slices.Concat(lists...) {
		known = known || k.id != ""
		if slices.Contains(k.algorithms, algorithm) {
			keys = append(keys, k)
		}
	}
	return keys, known
}

// replace replaces the keys of a source, and reports whether any was removed. The tokens that a removed key verified
// are no longer valid, even if another source has the same key.
func (r *keyring) replace(source int, keys []*key) (removed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	had := make(map[string]*key)
	for _, k := range r.bySource[source] {
		had[k.mark] = k
	}
	r.bySource[source] = nil
	for _, k := range keys {
		if same := had[k.mark]; same != nil {
			k = same
			delete(had, k.mark)
		}
		r.bySource[source] = append(r.bySource[source], k)
	}
	for _, k := range had {
		k.removed.Store(true)
	}
	byID := make(map[string][]*key)
	for _, k := range slices.Concat(r.bySource...) {
		byID[k.id] = append(byID[k.id], k)
	}
	r.byID.Store(&byID)
	return len(had) > 0
}
