// Package cache keeps the values of package internal/records/cache in Redis. Start from [New].
//
// # Keys
//
// A value is a string under the key of its kind, readable by any program. Values with tags, and values that can be
// found by the beginning of their ID, have entries in indexes: sorted sets in slots of their own, in the Redis of the
// channels, which must not evict. So an evicting Redis for the values costs no entry.
//
// While such a value is being stored, another key in its slot, cache_load:{id}:kind, holds the token of the put: its
// claim. An invalidation ends the claim, and the value is only stored while the claim lasts.
//
// # Order of the steps
//
// A put of an indexed value takes three steps: the claim, which removes an older value; the entries; storing the value,
// if the claim is still there. An invalidation by tag or prefix takes three, too: it reads entries with their scores;
// removes the values and the claims on them; removes the entries whose scores are still the same. Whatever the order in
// which both meet:
//
//   - If the invalidation reads before the entry is added, the value counts as put after the invalidation, and its
//     entry stays: adding it has changed its score.
//   - If it reads after that, the claim was there already. It ends the claim before the value is stored, so that it
//     isn't stored, or removes the value after that.
//
// So each value that is there has its entries. A process that ends between two steps leaves an entry without a value,
// which ends by itself, or a value with its entries. An invalidation that failed in the middle has kept the entries of
// values that it may not have removed, and is repeated. The two commands that remove one value are not atomic either:
// the claim goes first, so that nothing can be stored after the value is gone.
package cache
