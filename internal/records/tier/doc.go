// Package tier puts cached values into the sharded read tier of package shard.
//
//   - [Describe] describes the values of a kind to nodes and clients.
//   - A [Source] is the data of a node: it loads the values of an interval and follows their changes.
//   - A [Through] is a records.CacheStore that reads through nodes.
//
// Package storage/redis/records reads the values in Redis, and announces changes: each write names its IDs on the
// durable channel of its kind, before and after it.
//
//	writer:  announce ──► write ──► announce that it is over
//	             │                       │
//	node:     remember                read the values again, and apply them
//	             └─ 15 s later, if the end of the write hasn't come: as well
//
// A node loads everything again whenever it may have missed changes: if messages expired before it read them, if its
// subscriber was lost, or if a Redis may have lost its last writes. docs/records/caches.md describes the guarantees for
// readers, and the behaviour under failures.
package tier
