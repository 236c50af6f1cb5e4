// Package grpcserver has what the gRPC servers of a service and of a node have in common.
//
// grpc-go waits for a message as long as its client wants, and keeps what has arrived of it. [Arrivals] limits how many
// messages arrive slowly, and for how long. It ends their calls with [End], which needs [Endable] as the tap of the
// server. [Receive] tells messages that aren't protobuf from other errors, and needs [Codec]. [Health] serves health
// checks.
package grpcserver
