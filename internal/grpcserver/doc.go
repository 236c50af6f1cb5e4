// Package grpcserver has the common parts of the gRPC servers of a service and of a node.
//
// grpc-go waits for a message without a time limit, and keeps the received part in memory. [Arrivals] limits how many
// messages arrive slowly, and for how long. It ends their calls with [End], which needs [Endable] as the tap of the
// server. [Receive] tells messages that aren't protobuf from other errors, and needs [Codec]. [Health] serves health
// checks. grpc-go also returns from a unary call before its answer is written: with [SendAnswers] a large one, of
// [Count], is part of its call, so that the memory of answers that clients don't read is that of calls in progress.
//
// A [Server] drains in this order: it closes its listener and the connections without a complete preface, sends GOAWAY
// on the others, waits for the calls in progress, and closes all connections when its time is over.
package grpcserver
