package jwt

// Remembered returns the number of tokens that a verifier remembers, and their size in bytes.
func Remembered(v *Verifier) (tokens, bytes int) {
	v.seen.mu.Lock()
	defer v.seen.mu.Unlock()
	return v.seen.lru.Len(), v.seen.bytes
}
