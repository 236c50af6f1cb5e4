// Package redis keeps channels in Redis 7.0 or newer, or Valkey: standalone, behind Sentinel, or a Cluster.
//
// Every operation on a channel is one Lua script and one round trip; the scripts are in lua/, and
// docs/redis-internals.md tells of every key. What a script can't do while its channel's slot is half moved is
// tried again until the request's deadline is near, except for reading, which single-key reads then do.
package redis
