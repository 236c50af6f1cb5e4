// Package shardpb is generated from shard/rpc/shard.proto by `make generate`. It holds no logic.
package shardpb
