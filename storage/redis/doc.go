// Package redis keeps channels, and the queues of matchmaking, in Redis 7.0 or newer, or Valkey: standalone, behind
// Sentinel, or a Cluster.
//
// Every operation on a channel or a queue is one Lua script and one round trip; the scripts are in lua/, and
// docs/redis-internals.md tells of every key. What a script can't do while its slot is half moved is
// tried again until the request's deadline is near, except for reading a channel, which single-key reads
// then do. [Store] has the channels; [Queues], on the same connections, the queues.
package redis
