// Package leases keeps leases of package lease in Redis.
//
// Start from [New], and pass the [Store] to lease.NewManager:
//
//	conn, err := redis.Connect(ctx, redis.Options{URL: "redis://127.0.0.1:6379"})
//	...
//	manager, err := lease.NewManager(leases.New(conn), lease.Options{})
//
// A lease is one key, or two if its [Layout] says so, and each operation one script; docs/redis/leases.md documents
// both. Renewals of many leases go out in one pipeline to each node. A waiter learns of a release by a sharded pub/sub
// channel of the lease: all channels of a node share a connection, and waiting on them costs Redis no command.
//
// Errors of Redis are those of package fault: unavailable if Redis can't be reached or refuses writes, internal
// otherwise.
//
// Its exported names are public API, which changes incompatibly only in a release that says so: docs/api.txt.
package leases
