// Package shard is a read tier for data that is split into shards. In each data centre one process holds each shard in
// memory.
//
// A sharding key, a uint64 made from each key of a cache, decides where a value is. A [Layout] splits the sharding keys
// of a data centre into intervals, the shards. A [Node] claims one shard of its data centre by a lease, loads its
// values, and answers for them. A [Client] asks, for each key, the nodes of all data centres that have it, and takes
// the first answer:
//
//	            ┌─► a: shard 0 │ shard 1 │ shard 2 │ shard 3
//	Client.Get ─┼─► b: shard 0 │ shard 1 │ shard 2 │ shard 3      the first answer for each key wins
//	            └─► c: shard 0 │ shard 1 │ shard 2 │ shard 3
//
// So a process that dies or hangs, or a data centre that is slow or being split anew, neither delays a Get nor makes it
// fail. Data is eventually consistent: a node's values follow its source.
//
// A [Description] says how the keys and values of a cache are encoded. Package rpc carries calls over gRPC, package
// hosts finds nodes, package layout changes how a cache is split, and storage/redis/shards implements [Claims] and
// [Layouts].
//
// # What a client does
//
// The client learns which host has which interval from every answer, including late ones. For each host, the answer
// to the newest request is used. A host that leaves the list of hosts is removed. A host that stops answering is kept,
// because it may only be slow: each Get of its keys still asks it, until it answers otherwise or leaves the list.
//
// A Get asks all hosts that have a key, up to 64. It groups the keys that the same hosts have, and sends each host one
// call for a group, of up to [MaxKeys] keys. A call that times out or can't reach its host is repeated while its keys
// have no answer. The number of concurrent Gets is not bounded; each has one goroutine for each of its calls. A call
// ends at most Timeout after it began, even if nobody waits for its answer. An answer counts if it is for the keys
// asked for, can be decoded, and doesn't contradict itself. Otherwise it counts as a failure, so a bad answer never
// hides a good one.
//
// A client pings each host every PingPeriod. With 3,000 hosts, 1,000 clients and the default of 1 s, each client sends
// 3,000 pings a second and each host receives 1,000. PingRate bounds what a client sends; a longer PingPeriod lowers
// both. The client then discovers new nodes later. Gets whose keys have another host are not affected. SkipPings omits
// the pings of hosts that answer Gets.
//
// # What a node does
//
// A node claims a shard, loads it, announces that, and answers while it renews its claim every PingPeriod. Its claim is
// a lease, as in package lease: by its monotonic clock the node may answer until TTL − Margin after it sent the last
// renewal that succeeded. It checks the claim before it reads values and again afterwards, so values read after a pause
// of the process are not sent. Errors of [Node.Ready] and the log say why a node doesn't answer.
//
//   - No layout, or all shards have nodes: it waits, and gets the next shard that is free.
//   - Another process has its host name: it waits until that process ends.
//   - The source fails before the shard is loaded: it is run again after 0.1 s to 10 s. The claim is renewed meanwhile.
//   - The source fails later: the same, and the values loaded last are served meanwhile.
//   - The claims can't be reached: it answers until its claim ends, and then stops. The source goes on. As soon as it
//     can, it renews the claim or claims the same shard again. It answers once its source has read what it has missed,
//     if that is a [Refresher], and otherwise at once; if claims may be lost, see below.
//   - The claims can't be reached, with KeepServing: it answers until a claim is refused. Meanwhile another node may
//     answer with newer values.
//   - Another node has its shard: Run returns an error that wraps lease.ErrLost, so that a supervisor restarts it.
//   - The layout has changed: it leaves its shard, claims another one and loads that.
//   - The process is paused: as if the claims couldn't be reached.
//   - ctx of Run ends: it stops answering and leaves its shard, which another node gets at once.
//   - The clock of the node's machine is set: no effect, only the monotonic clock counts.
//   - The clock of the claims is set forward: a claim may end early; two nodes may then answer for one shard until the
//     next ping of the first.
//   - Claims may be lost, as in a fail-over or a restart of Redis: claims that Redis still has remain valid. No shard
//     is granted for a TTL, until all claims that may be lost have ended. A node whose claim was lost stops at its next
//     ping or when the claim ends. It then waits to claim again, and keeps its loaded values. Hosts that Redis still
//     lists for a shard may claim it first.
//   - Redis's old primary goes on beside the new one, in a partition: a node that reaches only the old one answers
//     until TTL − Margin after the last ping that the old primary confirmed. If that ping was later than the first
//     claim at the new primary, two nodes answer for a while. Answers carry their incarnation: the higher one has the
//     shard. With min-replicas-to-write 1 the old primary rejects pings once it has missed its replica for
//     min-replicas-max-lag.
//
// # Where to start
//
// For a client, with the steps of a Get in order: client.go, get.go (the keys and values), flight.go (which hosts are
// asked, the first answer, and calls that outlive their Get), fleet.go (the list of hosts, pings, and what an answer
// teaches), hostmap.go (which host has which keys), hedge.go (the local data centre first), unanswered.go (errors). For
// a node: node.go, claimlease.go (its claim as a lease), source.go (loading), answer.go (answering).
//
// Its exported names are public API, which changes incompatibly only in a release that says so: docs/api.txt.
package shard
