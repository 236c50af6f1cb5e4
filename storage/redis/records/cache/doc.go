// Package cache keeps the values of package records/cache in Redis. Start from [New].
//
// # Keys
//
// A value is a string under the key of its kind, readable by any program. Another key in the same slot,
// cache_load:{id}:kind, holds the token of the claim on it, or "absent" for a short time after a loader has found
// nothing. This key coordinates claims, values and invalidations: an invalidation ends the claim, and a value is only
// stored while its claim lasts.
//
// Values with tags, and values that can be found by the beginning of their ID, have entries in indexes: sorted sets in
// slots of their own, in the Redis of the channels, which must not evict. So an evicting Redis for the values costs no
// entry.
//
// # Order of the steps
//
// A value that is found by its prefix takes four steps: the claim, which removes an older value if a writer makes it;
// the entry; making the value; storing it, if the claim is still there. An invalidation by prefix takes three: it reads
// entries with their scores; removes the values and the claims on them; removes the entries whose scores are still the
// same. Whatever the order in which both meet:
//
//   - If the invalidation reads before the entry is added, the value is made after that, and its entry stays: adding it
//     has changed its score.
//   - If it reads after that, the claim was there already. It ends the claim before the value is stored, so that it
//     isn't stored, or removes the value after that.
//
// The tags of a value are known only when it is made, so that their entries are added before it is stored. An
// invalidation that came while it was made may have found no entry. It therefore begins by marking the index of its tag
// with the time, and a value isn't stored if one of its tags was marked since its claim. Only durations are compared,
// never the times of two clocks.
//
// A process that ends between two steps leaves an entry without a value, which ends by itself, or a value with its
// entry. An invalidation that failed in the middle has kept the entries of values that it may not have removed, and is
// repeated. The two commands that remove one value are not atomic either: the claim goes first, so that nothing can be
// stored after the value is gone.
package cache
