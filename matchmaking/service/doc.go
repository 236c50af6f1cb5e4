// Package service is matchmaking as the APIs and embedding programs call it: tickets are created, read and cancelled,
// queues are defined, described and deleted. Start at [Service]. Its methods may be called by many goroutines, before
// and while its Run directs the queues (package director) and carries assignments to their channels (package outbox).
// Any number of servers can run at the same time: each does its part.
//
// Where to look:
//
//	create.go      a ticket is created: its ID is reserved, then the queue gets the ticket
//	undo.go        tickets of which it is unknown whether they were created are removed
//	registry.go    the queues that this server knows; refresh.go reads their definitions
//	heartbeats.go  tickets of present players are renewed
//
// Errors that a client is told are a *fault.Error: those of package matchmaking, the store and the channels, perhaps
// wrapped. Other errors are the end of a context, or a defect.
package service
