// Package records keeps records in Redis. docs/redis/records.md documents the keys and the scripts.
//
// There is one store for each subpackage of records, in the files of its name:
//
//   - [Sessions], and [SessionTracker], which reports their changes. A session and the set of its user's sessions have
//     one slot, that of the user, and each operation is one script.
//   - [Settings]. The index of the settings, with a mark for each, is one key, and each value is a key in a slot of its
//     own. A value is shown in the clear only if it is marked public both before and after the value was read.
//   - [Tokens]: verification tokens, OAuth states, and the sealed tokens of OAuth providers (providers.go). All keys of
//     a user have one slot. A token is kept under its hash: no key, argument or reply has the token.
//   - [Counters]: views, states of processes, and statistics.
//   - [NewLocks]: locks of applications are leases, whose names are their keys.
//   - [Copies]: the channels with messages that must be copied to followers, in one sorted set. Each announcement is
//     notified on a sharded pub/sub channel, so that waiting costs nothing.
//   - [Values] reads cached values for the nodes of the read tier, and [Announcer] announces their changes. The values
//     are those of the subpackage cache; announcements are messages of channels.
//   - [KeySource] scans the keys of a Redis, for diagnostics. It goes from primary to primary with SCAN, whose
//     COUNT bounds how long one call keeps Redis busy, keeps no more than one page in memory, and changes nothing.
//
// [Instances] assigns records to Redis instances. topology.go detects restarts and promotions of primaries.
//
// Errors of Redis are those of package fault: unavailable if Redis can't be reached or refuses writes, internal
// otherwise.
//
// Only the program uses it: nothing in it is promised to others.
package records
