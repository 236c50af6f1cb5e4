// Package rpc carries calls of the sharded read tier over gRPC: a [Server] answers for a node, and a [Client] is the transport of a
// client. shard.proto defines the service; package shardpb has its messages for other Go programs.
package rpc
