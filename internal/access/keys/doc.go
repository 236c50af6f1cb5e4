// Package keys caches the API keys and the revocations of a service. Every server has all of them in memory, so that a
// check of a credential needs no read of the storage.
//
// Start from [New]. [Registry.Run] keeps the memory up to date: it reads changes when the store notifies of one, and
// when it polls the position of the last change, twice a second. So every server knows a revocation within a second
// after it was answered, even while notifications are lost. The server that answers it knows it first.
//
// # Keys
//
// A key is tmk_<id>_<secret>. Only the SHA-256 of the whole is kept, and compared in constant time. A key has 256
// random bits, so that a faster hash than for passwords is enough. Keys are made at run time, or come from a file,
// which is read again when it changes. If both have the same ID, that of the file counts.
//
// # What a store may lose
//
// A store that has lost writes, as after a fail-over, is read completely. Servers then have only the keys that the
// store still has. But revocations stay in force: a server writes those that the store has lost back. The deletion of a
// key is a revocation, too, so that a deleted key doesn't return. A revocation is lost only if all servers that knew it
// end.
package keys
