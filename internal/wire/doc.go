// Package wire has the JSON bodies that the server reads and writes: those of /v1, those of the predecessor's API
// (predecessor.go), and the problems that report errors (problem.go). What a Go program gets from a call is declared by
// package client, and encoded here.
//
// The bodies of channels are in publish.go, delivery.go, fetch.go (from several channels), requests.go and answers.go;
// those of matchmaking in tickets.go and queues.go; those of API keys and revocations in access.go. Records have a file
// for each resource, such as sessions.go and locks.go.
//
// The structs are encoded and decoded by encoding/json. Messages are encoded by the functions and methods whose names
// begin with Append instead: they copy a content byte for byte, while encoding/json rewrites its white space and
// escapes.
//
// Servers decode requests with [DecodeDrafts] and the Decode functions, which are strict: they refuse duplicate and
// unknown members, null, text that is not UTF-8, and anything after the JSON value. The content of a message, and the
// extensions of a ticket, are checked and kept byte for byte. The error is always an *[InputError]. Where a request has
// rules that its struct doesn't state, such as a member that must be there, the function decodes into a struct that
// hides such members by ones of types that check them.
//
// Many goroutines may call the functions.
package wire
