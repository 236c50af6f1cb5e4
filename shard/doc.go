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
//
// # What a client does
//
// The client has a map: which host has which interval. It is learnt from every answer, also from those that come too late for their
// Get. What was said last counts, by the order in which requests were sent. A host that leaves the list of hosts is forgotten. One
// that doesn't answer isn't: it is asked by each Get until it says otherwise.
//
// A Get asks all hosts that have a key, up to 64, each once for all keys that the same hosts have, up to [MaxKeys]. Calls that time out
// or can't reach their host are repeated, each for itself, while their keys have no answer. There is no bound on Gets that run at a time;
// each has a goroutine for each of its calls. A call ends at most Timeout after it has begun, also if nobody waits for its answer. A
// node's answer counts if it is for the keys asked for, can be decoded, and doesn't contradict itself. Otherwise it counts as a
// failure, so that a bad answer never hides a good one.
//
// A client sends each host a ping every PingPeriod: hosts / PingPeriod a second, and each host gets clients / PingPeriod. With 3,000
// hosts, 1,000 clients and the default of 1 s that is 3,000 a second for each client and 1,000 for each host. PingRate bounds the
// first, and a longer PingPeriod both; then a client learns later of a node that has begun to answer, while it has no effect on Gets
// whose keys have another host. SkipPings leaves out the pings of hosts that answer Gets.
package shard
