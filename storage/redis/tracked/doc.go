// Package tracked reads strings and hashes through Redis's client-side caching: after the first read a key is answered
// from memory until Redis reports that it changed.
//
// Start from [Open]. A [Client] has connections of its own, one to each node. Redis remembers which keys were read on
// them, and sends the name of a key once it is written, deleted, expired, evicted or moved to another node. Reading it
// again costs one round trip, and then nothing.
//
// # How old an answer can be
//
// An answer is older than Redis's value for as long as the message needs. A connection that was cut is noticed at once,
// one that hangs after 3 seconds at the latest: Lost is called, and everything is read again. After a fail-over, values
// that only the old primary had are dropped together with its connection. If a key doesn't exist, its slot moves to
// another node of a Cluster, and it is created there, the answer can be 2 seconds old. No answer is older than
// Options.MaxAge.
//
// A Redis that is out of memory can't track keys; they are then read from it each time. So are those of a Redis that
// refuses client-side caching, since it doesn't speak RESP3, or has no CLIENT TRACKING or no transactions, as some hosted
// services: see Client.Tracks.
//
// Redis's user needs CLIENT|TRACKING, MULTI, EXEC, ECHO, PTTL, GET and HGETALL. Everything may be used by many
// goroutines.
package tracked
