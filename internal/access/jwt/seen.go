package jwt

import (
	"crypto/sha256"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/tidemark-dev/tidemark/internal/access"
)

// Limits of the cached tokens.
const (
	maxSeen      = 10_000
	maxSeenBytes = 16 << 20 // of the tokens; the cache needs a multiple of it
)

type digest = [sha256.Size]byte

// seen caches the results of verified tokens by their digest. The tokens themselves are not kept.
type seen struct {
	mu    sync.Mutex
	lru   *simplelru.LRU[digest, verified]
	bytes int
}

// verified is the result of verifying a token.
type verified struct {
	principal *access.Principal
	by        *key
	bytes     int
}

func newSeen() *seen {
	s := &seen{}
	// the size is positive: no error
	s.lru, _ = simplelru.NewLRU(maxSeen, func(_ digest, v verified) { s.bytes -= v.bytes })
	return s
}

// get returns the principal of a token, or nil.
func (s *seen) get(d digest) *access.Principal {
	s.mu.Lock()
	v, ok := s.lru.Get(d)
	s.mu.Unlock()
	if !ok || v.by.removed.Load() {
		return nil
	}
	return v.principal
}

func (s *seen) add(d digest, v verified) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lru.Remove(d) // calls the function above, which Add doesn't for a value that it replaces
	s.lru.Add(d, v)
	for s.bytes += v.bytes; s.bytes > maxSeenBytes; {
		s.lru.RemoveOldest()
	}
}

// forget removes the tokens of removed keys.
func (s *seen) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.lru.Keys() {
		if v, _ := s.lru.Peek(d); v.by.removed.Load() {
			s.lru.Remove(d)
		}
	}
}
