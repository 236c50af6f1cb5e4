// Package records keeps records in Redis. docs/redis/records.md documents the keys and the scripts.
//
// There is a store for each part of records, in the files of its name:
//
//   - [Sessions], and [SessionTracker], which reports their changes. A session and the set of its user's sessions have
//     one slot, that of the user, and each operation is one script; a long list is several.
//   - [Settings]. The index of the settings, with a mark for each, is one key, and each value is a key in a slot of its
//     own. A value is shown in the clear only if it is marked public both before and after the value was read.
//   - [Tokens]: verification tokens, OAuth states, and the sealed tokens of OAuth providers (providers.go). All keys of
//     a user have one slot. A token is kept under its hash: no key, argument or reply has the token.
//   - [Counters]: views, states of processes, and statistics.
//   - [NewLocks]: locks of applications are leases, whose names are their keys.
//   - [Copies]: the channels with messages that must be copied to followers, in one sorted set. Each announcement is
//     notified on a sharded pub/sub channel, so that waiting costs nothing.
//   - [Caches]: cached values, and their indexes.
//   - [Values] reads cached values for the nodes of the read tier, and [Announcer] announces their changes.
//     Announcements are messages of channels.
//   - [KeySource] scans the keys of a Redis, for diagnostics. It goes from primary to primary with SCAN, whose
//     COUNT bounds how long one call keeps Redis busy, keeps no more than one page in memory, and changes nothing.
//
// [Instances] assigns records to Redis instances. topology.go detects restarts and promotions of primaries.
//
// Errors of Redis are those of package fault: unavailable if Redis can't be reached or refuses writes, internal
// otherwise.
//
// Only the program uses it: nothing in it is promised to others.
//
// # Keys of cached values
//
// A value is a string under the key of its kind, readable by any program. Values with tags, and values that can be
// found by the beginning of their ID, have entries in indexes: sorted sets in slots of their own, in the Redis of the
// channels, which must not evict. So an evicting Redis for the values costs no entry.
//
// While such a value is being stored, another key in its slot, cache_load:{id}:kind, holds the token of the put: its
// load. An invalidation ends the load, and the value is only stored while the load lasts.
//
// # Order of the steps of cached values
//
// A put of an indexed value takes three steps: the load begins, which removes an older value; the entries; storing the
// value, if the load is still there. An invalidation by tag or prefix takes three, too: it reads entries with their
// scores; removes the values and their loads; removes the entries whose scores are still the same. Whatever the order
// in which both meet:
//
//   - If the invalidation reads before the entry is added, the value counts as put after the invalidation, and its
//     entry stays: adding it has changed its score.
//   - If it reads after that, the load was there already. It ends the load before the value is stored, so that it
//     isn't stored, or removes the value after that.
//
// So each value that is there has its entries. A process that ends between two steps leaves an entry without a value,
// which ends by itself, or a value with its entries. An invalidation that failed in the middle has kept the entries of
// values that it may not have removed, and is repeated. The two commands that remove one value are not atomic either:
// the load ends first, so that nothing can be stored after the value is gone.
package records
