// Package service is matchmaking as the APIs call it: tickets are created, read and cancelled, queues are put, described
// and deleted. Start at [Service]. Its methods may be called by many goroutines, before and while its Run directs the
// queues (package director) and carries assignments (package outbox).
//
// Errors that a client is told are those of package matchmaking, and those of the store and the channels, wrapped.
package service
