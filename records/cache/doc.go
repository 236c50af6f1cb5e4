// Package cache keeps values that are expensive to make, in Redis for all processes and decoded in this one.
//
// A [Cache] holds the values of one kind of key. Its strategies are those of the community schema:
//
//   - cache-aside: [Cache.Load] returns the cached value, or else calls a function that loads it from the source of
//     truth;
//   - write-through: [Cache.Write] writes to the source, and then to the cache;
//   - write-behind: [WriteBehind] appends each value to a stream, from which one process writes the values to the
//     source.
//
// # What a reader can rely on
//
// After [Cache.Invalidate] has returned, no process answers an older value for longer than Redis's notification takes
// to arrive there. A loader that began before the invalidation can't store its value: it holds a short lease in Redis,
// which the invalidation ends. The same lease lets only one process load a value that many ask for; the others wait
// until it is stored.
//
// After a fail-over of Redis that loses its last writes, an invalidation can be lost, too. Values then stay until their
// TTL.
//
// # Bounds
//
// A value has at most Kind.MaxBytes. Decoded values take at most Options.LocalBytes in a process, estimated from their
// encoded size. At most Options.MaxLoads loaders run at once, each for Options.LoadTimeout; those that ignore the end
// of their context count until they return. A tag has at most [MaxIndexed] values.
//
// Values are shared between callers: they must not be changed.
package cache
