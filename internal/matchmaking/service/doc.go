// Package service implements the operations of matchmaking for the APIs and embedding programs: create, read and cancel
// tickets; define, describe and delete queues. Start at [Service]. Its methods may be called by many goroutines, before
// and while its Run directs the queues (package director) and publishes assignments on their channels (package outbox).
// Any number of servers can run at the same time and share the work.
//
// Files:
//
//	create.go      a ticket is created: its ID is reserved, then the queue gets the ticket
//	undo.go        tickets of creations with an unknown outcome are removed
//	registry.go    the queues known to this server, and reads of their definitions
//	heartbeats.go  tickets of present players are renewed
//
// Errors for clients are a *fault.Error, possibly wrapped: those of package matchmaking, the store and the channels.
// Other errors are those of a context, or indicate a bug.
package service
