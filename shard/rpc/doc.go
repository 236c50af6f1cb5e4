// Package rpc carries calls of the sharded read tier over gRPC: a [Server] answers for a node, and a [Client] is the
// transport of a client. shard.proto defines the service; package shardpb has its messages for other Go programs.
//
// # Bounds
//
// [Limits] bounds the resources that clients can use on a server. Calls beyond the limits are refused at once, if
// possible before their requests are read. Besides these limits:
//
//   - Calls without the server's token are refused before their requests are read. Only health checks need none.
//   - The headers of a call have at most 8 KiB, and it has at most [shard.MaxKeys] sharding keys.
//   - Compressed requests are refused: a small one could decompress to a large one.
//   - A connection must finish its handshake in 5 s, may send a PING every 5 s, is closed if its client answers no PING
//     for 20 s, if what is sent to it isn't acknowledged for that long, and after 10 minutes without calls. A client
//     can send 64 KiB of a request before the server reads it.
//   - There are at most 128 watches of health, and 128 other calls of health and reflection, whose requests must arrive
//     within 1 s. A call of reflection lasts at most a minute.
//
// An answer is in memory until its client has read it, which the server can't observe. So a client that reads no
// answers can make the server keep one for each stream of its connections: Limits.Connections times Limits.Streams
// answers of up to Limits.MessageBytes. Only clients with the token can do that.
//
// A client bounds the answers of a node (ClientOptions.MaxBytes, and 16 KiB of headers), and the calls that wait for it
// (MaxCalls), so that an unresponsive node costs no more memory than these. It keeps 512 bytes of the text of an error,
// and quotes unprintable characters.
//
// Its exported names are public API, which changes incompatibly only in a release that says so: docs/api.txt.
package rpc
