// Package shards keeps the layouts of caches, and the claims of nodes on their shards, in Redis: it implements
// shard.Claims and shard.Layouts.
//
// Start from [New]:
//
//	conn, err := redis.Connect(ctx, redis.Options{URL: "redis://127.0.0.1:6379"})
//	...
//	store := shards.New(conn)
//	node, err := shard.NewNode(description, source, shard.NodeOptions{Claims: store, ...})
//	client, err := shard.NewClient(description, shard.ClientOptions{Hosts: store.Hosts("authors"), ...})
//
// All keys of a cache are in one slot; docs/redis/shards.md documents them and the scripts. A ping is one script on
// one field. A waiting node is notified of a free shard, and of a new layout, on a sharded pub/sub channel of its data
// centre.
//
// Errors of Redis are those of package fault: unavailable if Redis can't be reached or refuses writes, internal
// otherwise.
//
// Its exported names are public API, which changes incompatibly only in a release that says so: docs/api.txt.
package shards
