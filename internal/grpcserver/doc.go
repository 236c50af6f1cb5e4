// Package grpcserver has the common parts of the gRPC servers of a service and of a node.
//
// [Arrivals] limits how many messages arrive slowly, and for how long. It ends their calls with [End], which needs
// [Endable] as the tap of the server. [Receive] tells messages that aren't protobuf from other errors, and needs
// [Codec]. [Health] serves health checks. With [SendAnswers] a large answer to a unary call, of [Count], is part of its
// call until it is written, so that the memory of answers that clients don't read is that of calls in progress. grpc-go
// has none of these limits: docs/decisions/0006-grpc-by-grpc-go-and-connect-go.md and
// docs/decisions/0011-guards-beside-the-libraries.md.
//
// A [Server] drains in this order: it closes its listener and the connections without a complete preface, sends GOAWAY
// on the others, waits for the calls in progress, and closes all connections when its time is over.
package grpcserver
