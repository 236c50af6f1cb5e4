// Package wire is the JSON that servers and clients exchange over HTTP: the bodies of /v1 and of the predecessor's API,
// and the problems that report errors.
//
// The structs are encoded and decoded by encoding/json. Messages are encoded with the AppendJSON methods instead: they
// copy a content byte for byte, while encoding/json rewrites its white space and escapes.
//
// Servers decode requests with [AppendDrafts] and the Decode functions, which are strict: they refuse duplicate and
// unknown members, null, text that is not UTF-8, and anything after the JSON value. The content of a message, and what
// a ticket carries for others, are checked but stay as they were written. The error is always an *[InputError].
//
// All functions may be called by any number of goroutines.
package wire
