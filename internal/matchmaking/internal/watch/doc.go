// Package watch waits for assignments in memory, with one subscription for each queue with waiting players on this
// server, independent of their number. Start from [Watches.Await].
//
// # A wait
//
// A wait is an entry in the feed of its queue. Once the subscription is confirmed, the feed reads the ticket: the first
// entry at once, and entries added during that read together. From then on the entry waits for a notification, without
// a goroutine or timer of its own. Each entry is for one life of its ticket, identified by the ticket's creation time:
// it never receives an assignment of an earlier or later ticket with the ID.
//
// # Repeated reads
//
// An entry's ticket is read again when a notification may have been lost: after an interruption of the subscription,
// after a notification without the assignment or about a later ticket with the ID, at the expected end of the ticket's
// life, and in any case about every [backstop]. All of these reads together are limited to [readRate] tickets a second
// for the server, so that a million entries don't overload the storage.
//
// # Tickets made on this server
//
// [Watches.Expect] notes a ticket before it is created, if the feed of its queue is confirmed. A wait for it then needs
// no read, and receives an assignment even if it was made before the wait. Notes last [noteLife].
package watch
