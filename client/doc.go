// Package client is the Go client of a Tidemark service.
//
//	c, err := client.New("http://127.0.0.1:8080")
//	...
//	_, err = c.Publish(ctx, "news", client.Draft{Content: []byte(`{"text":"hello"}`)})
//
// # Reading
//
// A subscriber is created once with Subscribe. Fetch returns the messages after its mark, and Ack moves the mark up to
// the last message of a fetch. Next does both in one request. Consume is the loop that most readers need, and
// ConsumeMany the loop for many channels.
//
// Consume and ConsumeMany read a stream, on which messages come without a request for each, and poll where there is
// none. Stream reads one stream, for callers that acknowledge in their own way.
//
// # Matchmaking
//
// CreateTicket asks for a match. The assignment is a message on the ticket's own channel, for which AwaitAssignment
// waits.
//
// # Retries
//
// A try without an answer, or with one that means "not now" (429, 502, 503, 504), is repeated with growing pauses as
// the RetryPolicy says. All calls are safe to repeat. A publish is, because the client makes the message's ID before
// the first try, and the service publishes an ID once. A ticket's ID is made in the same way.
//
// # Errors
//
// An error that the service answered is an *Error. Compare it with errors.Is and the sentinels of this package, such as
// ErrNoSubscriber. If there was no answer, errors.Is reports ErrUnreachable. When the context ends, a call returns its
// error at once.
//
// Its exported names are public API, which changes incompatibly only in a release that says so: docs/api.txt.
package client
