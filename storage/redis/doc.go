// Package redis is the connection to Redis 7.0 or newer, or Valkey: standalone, behind Sentinel, or a Cluster. The
// packages below it keep one domain each in that Redis; docs/redis documents their keys and scripts.
//
// Start from [Connect], which returns a [Conn]. A store needs of it:
//
//   - [Conn.Run] runs a script; the script's [Reply] begins with a status, and a [Decoder] reads the rest.
//   - [Conn.RunMany] runs a script for many calls in one round trip.
//   - [Conn.Retry] does the same for plain commands on [Conn.Client], or on [Conn.Bulk] if their replies are large.
//   - [Conn.LargeRead] limits the memory of large reads.
//   - [Conn.Session] runs scripts on a connection of the caller's own and waits until replicas have what they wrote.
//   - [Conn.Listen] subscribes to a topic of sharded publish/subscribe.
//   - [Conn.Dial] makes further connections; package tracked does so for client-side caching.
//   - [Conn.Prefix] is the prefix of each key.
//   - [Replicas] runs read-only scripts on replicas.
//
// [Conn.Inspect] describes the storage and its durability, and [Conn.Ready] checks that it can be used. The subpackage
// diagnose examines a Redis for its operators.
//
// # Failures
//
// All operations are safe to run twice, so that they are tried again after errors that may pass: a lost connection, a
// fail-over, a script that can't run while its slot is being moved. That ends at the time limit of the connection or at
// the caller's deadline. Errors that remain are those of package fault: ErrUnavailable, ErrStorageFull, or an internal
// one for a reply that no script returns. If ctx is cancelled the error is ctx's.
//
// Everything may be used by many goroutines, except a [Session] and a [Decoder].
//
// Its exported names are public API, which changes incompatibly only in a release that says so: docs/api.txt.
package redis
