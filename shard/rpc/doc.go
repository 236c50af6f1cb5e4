// Package rpc carries calls of the sharded read tier over gRPC: a [Server] answers for a node, and a [Client] is the transport of a
// client. shard.proto defines the service; package shardpb has its messages for other Go programs.
//
// # Bounds
//
// [Limits] has what clients can make a server do. A node does what they allow, and refuses the rest at once, before it has read it
// if it can. Beyond these limits:
//
//   - Calls without the server's token are refused before their requests are read. Only health checks need none.
//   - The headers of a call have at most 8 KiB, and it has at most [shard.MaxKeys] sharding keys.
//   - Compressed requests are refused: a small one could decompress to a large one.
//   - Messages of up to 16 KiB don't count for Limits.Memory: Calls bounds them.
//   - A call is in progress until its answer was sent, if that has more than 16 KiB, or if the client has left 256 KiB of answers
//     unread on the connection.
//   - A connection must finish its handshake in 5 s, may send a PING every 5 s, is closed if its client answers no PING for 20 s, and
//     after 10 minutes without calls. A client can send 64 KiB of a request before the server reads it.
//   - There are at most 128 watches of health, 128 other calls of health and reflection, whose requests must arrive within 1 s, and a
//     call of reflection lasts at most a minute.
//
// A client bounds the answers of a node (ClientOptions.MaxBytes, and 16 KiB of headers), and the calls that wait for it (MaxCalls), so
// that a node that swallows calls costs no more memory than these. It keeps 512 bytes of the text of an error, with what isn't
// printable quoted.
package rpc
