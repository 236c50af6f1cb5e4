// Package tracked reads strings and hashes through Redis's client-side caching: after the first read a key is answered
// from memory until Redis reports that it changed.
//
// Start from [Open]. A [Client] has connections of its own, one to each node. Redis remembers which keys were read on
// them, and sends the name of a key once it is written, deleted, expired, evicted or moved to another node. Reading it
// again costs one round trip, and then nothing.
//
// # Caching decoded values
//
// A caller that decodes a value and keeps the result listens for changes, and drops the result when its key has
// changed. A change can arrive between the reading of a value and its keeping; the caller would then keep an old value
// that no later message drops. [Entry.Fresh] closes this gap. The caller needs one lock for both sides:
//
//	client.Listen(tracked.Listener{
//		Changed: func(key string) { mu.Lock(); delete(kept, key); mu.Unlock() },
//		Lost:    func() { mu.Lock(); clear(kept); mu.Unlock() },
//	})
//
//	entry, err := client.Get(ctx, key)   // before the lock
//	value := decode(entry.Bytes)
//	mu.Lock()
//	if entry.Fresh() {                   // under the lock
//		kept[key] = value                // until entry.Until at the latest
//	}
//	mu.Unlock()
//
// It works because a client first makes older entries of a key unfresh, and calls Changed after that. If Fresh reported
// true, Changed has not been called for any later change yet, and takes the lock after the value was stored.
//
// The entry of a missing key is never fresh. Reading it again is cheap, and misses a change no longer than described
// below.
//
// # How old an answer can be
//
// An answer is older than Redis's value for as long as the message needs. A connection that was cut is noticed at once,
// one that hangs after 3 seconds at the latest: Lost is called, and everything is read again. After a fail-over, values
// that only the old primary had are dropped together with its connection. If a key doesn't exist, its slot moves to
// another node of a Cluster, and it is created there, the answer can be 2 seconds old. No answer is older than
// Options.MaxAge.
//
// A Redis that is out of memory can't track keys; they are then read from it each time, and their entries are never
// fresh.
//
// Redis's user needs CLIENT|TRACKING, MULTI, EXEC, ECHO, PTTL, GET and HGETALL. Everything may be used by many
// goroutines.
package tracked
