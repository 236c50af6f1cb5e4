// Package keys knows the API keys and the revocations of a service. Every server has all of them in memory, so that
// checking a credential costs no call of the storage.
//
// Start from [New]. [Registry.Run] keeps what a server knows up to date: a change is read when the store notifies of
// it, and else when the last change is looked up, twice a second. So a revocation that was answered is known to every
// server within a second, also while notifications are lost. The server that answered it knows it before it answers.
//
// # Keys
//
// A key is tmk_<id>_<secret>. Only the SHA-256 of the whole is kept, and compared in constant time. A key has 256
// random bits, so that a faster hash than for passwords is enough. Keys are made at run time, or come from a file,
// which is read again when it changes. If both have the same ID, that of the file counts.
//
// # What a store may lose
//
// A store that lost writes, as after a fail-over, is read as a whole, also if only the server that answered knew them.
// Keys are then those that it has. But no revocation is forgotten: what a server knew and the store has lost stays in
// force, and the server puts it back. The deletion of a key is a revocation, too, so that a key doesn't come back. A
// revocation is lost only with all servers that knew it.
package keys
