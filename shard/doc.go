// Package shard is a read tier for data that is split into shards, each of which one process holds in memory in each
// data centre.
//
// A cache's data is split by a sharding key, a uint64 that is made from each key. A [Layout] splits the sharding keys
// of a data centre into intervals, the shards. A [Node] claims one shard of its data centre by a lease, loads what is
// in it, and answers for it. A [Client] asks, for each key, the nodes of all data centres that have it, and takes the
// first answer:
//
//	            ┌─► a: shard 0 │ shard 1 │ shard 2 │ shard 3
//	Client.Get ─┼─► b: shard 0 │ shard 1 │ shard 2 │ shard 3      the first answer for each key wins
//	            └─► c: shard 0 │ shard 1 │ shard 2 │ shard 3
//
// So neither a process that dies or hangs, nor a data centre that is slow or split anew, delays a Get or makes it fail.
// Data is consistent eventually: what a node has follows its source.
//
// A [Description] says how a cache's keys and values are made into bytes. Package rpc carries calls over gRPC, and
// storage/redis/shards keeps who has which shard.
//
// # What a client does
//
// The client has a map: which host has which interval. It is learnt from every answer, also from those that come too
// late for their Get. Of several answers of a host the one to the newest request counts. A host that leaves the list of
// hosts is removed. A host that stops answering isn't, as it may only be slow: each Get of its keys asks it, until it
// answers otherwise or leaves the list.
//
// A Get asks all hosts that have a key, up to 64, each once for all keys that the same hosts have, up to [MaxKeys].
// Calls that time out or can't reach their host are repeated, each for itself, while their keys have no answer. There
// is no bound on Gets that run at a time; each has a goroutine for each of its calls. A call ends at most Timeout after
// it has begun, also if nobody waits for its answer. A node's answer counts if it is for the keys asked for, can be
// decoded, and doesn't contradict itself. Otherwise it counts as a failure, so that a bad answer never hides a good
// one.
//
// A client sends each host a ping every PingPeriod: hosts / PingPeriod a second, and each host gets clients /
// PingPeriod. With 3,000 hosts, 1,000 clients and the default of 1 s that is 3,000 a second for each client and 1,000
// for each host. PingRate bounds the first, and a longer PingPeriod both; then a client learns later of a node that has
// begun to answer, while it has no effect on Gets whose keys have another host. SkipPings leaves out the pings of hosts
// that answer Gets.
//
// # What a node does
//
// A node claims a shard, loads it, announces that, and answers, while it renews its claim every PingPeriod. Its claim
// is a lease, as in package lease: the node may answer until TTL − Margin after the last renewal that succeeded was
// sent, by its monotonic clock. It looks at that clock before it reads values and again afterwards, so that values that
// were read after a pause of the process are not sent. Errors of [Node.Ready] and the log say why a node doesn't
// answer.
//
//	what happens                          what the node does
//	no layout; all shards have nodes      it waits, and gets the next shard that is free
//	another process has its host name     it waits until that process ends
//	the source fails before it has loaded it is run again after 0.1 s to 10 s, while the claim is renewed
//	the source fails later                the same; what was loaded last answers meanwhile
//	the claims can't be reached           until the claim ends it answers; then no longer, but the source goes on. As soon as it can it
//	                                      renews the claim or claims the same shard again, and answers at once; but see lost claims
//	the same with KeepServing             it answers all the time, until a claim is refused: others may answer meanwhile with newer values
//	another node has got its shard        Run returns an error that wraps lease.ErrLost, so that a supervisor starts it anew
//	the layout has changed                it leaves its shard, claims another one and loads that
//	the process is paused                 as if the claims couldn't be reached
//	ctx of Run ends                       it answers for no shard; then it leaves its shard, and another node gets it at once
//	the clock of a node's machine is set  nothing: only the monotonic clock counts
//	the clock of the claims is set        forward: a claim may end early, and until its next ping a node may answer beside another one
//	the claims may be lost, as in a fail- claims that are still known go on. Nobody gets a shard until all that may be lost have ended: for a
//	over or a restart of Redis            TTL. A node whose claim was lost stops with its next ping, or with its claim, and one whose claim is over
//	                                      waits too. Both keep what they have loaded. Hosts that are known to have had a shard claim first
//	Redis's old primary goes on beside    a node that reaches the old one only goes on until TTL − Margin after the last ping that this has
//	the new one, in a partition           answered: longer than another one waits, if that ping was later than the first claim at the new
//	                                      one. Answers say their incarnation: the higher one has the shard. With min-replicas-to-write 1
//	                                      the old primary answers no pings once it has missed its replica for min-replicas-max-lag
package shard
