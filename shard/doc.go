// Package shard is a read tier for data that is split into shards, each of which one process holds in memory in each data centre.
//
// A cache's data is split by a sharding key, a uint64 that is made from each key. A [Layout] splits the sharding keys of a data
// centre into intervals, the shards. A [Node] claims one shard of its data centre by a lease, loads what is in it, and answers for
// it. A [Client] asks, for each key, the nodes of all data centres that have it, and takes the first answer:
//
//	            ┌─► a: shard 0 │ shard 1 │ shard 2 │ shard 3
//	Client.Get ─┼─► b: shard 0 │ shard 1 │ shard 2 │ shard 3      the first answer for each key wins
//	            └─► c: shard 0 │ shard 1 │ shard 2 │ shard 3
//
// So neither a process that dies or hangs, nor a data centre that is slow or split anew, delays a Get or makes it fail. Data is
// consistent eventually: what a node has follows its source.
//
// A [Description] says how a cache's keys and values are made into bytes. Package rpc carries calls over gRPC, and
// storage/redis/shards keeps who has which shard.
package shard
