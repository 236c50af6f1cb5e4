// Package wire is what goes over HTTP between servers and clients: the JSON bodies of /v1 and of the predecessor's
// API, the problems that errors are told as, and the strict decoding of requests.
//
// The structs decode and encode with encoding/json. Where contents are concerned, encode with the AppendJSON
// methods: they copy a content byte for byte, while encoding/json rewrites its white space and escapes.
//
// Requests are decoded with AppendDrafts and the Decode functions. They take one JSON value that is valid UTF-8 and
// has no member twice, no unknown member, and nothing after it; contents, and what a ticket carries for others, are
// checked but never decoded. What they refuse comes back as an *InputError.
//
// All functions may be called by any number of goroutines.
package wire
