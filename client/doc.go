// Package client is the Go client of a Tidemark service.
//
//	c, err := client.New("http://127.0.0.1:8080")
//	...
//	_, err = c.Publish(ctx, "news", client.Draft{Content: []byte(`{"text":"hello"}`)})
//
// # Reading
//
// A subscriber is made once with Subscribe. Fetch reads what stands after its mark, and Ack moves the mark up to
// what a fetch answered. Next does both in one request. Consume is the loop that all readers end up with.
//
// # Matchmaking
//
// CreateTicket asks for a match. Its assignment comes as a message on the ticket's own channel, which AwaitAssignment
// waits for.
//
// # Trying again
//
// A try that got no answer, or one that says "not now" (429, 502, 503, 504), is repeated with growing pauses as
// the RetryPolicy says. All calls can be repeated safely. For a publish that is so because its message ID is made
// before the first try, and the service keeps the first message of an ID and drops the rest. A ticket's ID is made in
// the same way.
//
// # Errors
//
// What the service answered is an *Error. Ask errors.Is for one of the sentinels of this package, such as
// ErrNoSubscriber. Where there was no answer at all, errors.Is reports ErrUnreachable. A context that ends gives
// its error at once.
package client
