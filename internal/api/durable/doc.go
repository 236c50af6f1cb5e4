// Package durable serves channels by the Durable Streams protocol: a stream is the channel whose name is its path. It
// only translates; package channel decides.
//
// Start at [Register]. headers.go has the headers of requests and answers, create.go, append.go, read.go and
// sse.go the calls. In JSON mode a message is a value: the body of an append is one, or an array of them, and that of a
// read an array. In all other modes the body of an append is a message, and that of a read the messages without anything
// between them. docs/durable-streams.md says where the protocol's requirements are met, and what differs.
package durable
