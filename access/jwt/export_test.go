package jwt

// Remembered returns how many tokens a verifier remembers, and how many bytes they had.
func Remembered(v *Verifier) (tokens, bytes int) {
	v.seen.mu.Lock()
	defer v.seen.mu.Unlock()
	return v.seen.lru.Len(), v.seen.bytes
}
