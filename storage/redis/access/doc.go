// Package access keeps API keys, revocations and quotas in Redis. [Store] implements the store of package
// access/registry, and [Quotas] counts usage on all servers together; docs/redis/access.md documents the keys
// and the scripts.
//
// Keys and revocations have one slot. Each change is in a stream, from which servers read changes, and is
// notified by a sharded pub/sub channel; a server that isn't notified sees it in the last entry of the stream. All
// reads are those of the primary. A quota is one key, in its own slot.
//
// Errors of Redis are those of package fault: unavailable if Redis can't be reached or refuses writes, internal
// otherwise.
//
// Only the program uses it: nothing in it is promised to others.
package access
