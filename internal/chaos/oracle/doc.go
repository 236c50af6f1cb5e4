// Package oracle judges what clients saw of a service against what the service promised them.
//
// Clients report every answer as they get it: Messages is told of publishes that were answered, of deliveries and of
// acknowledgements, Tickets of tickets and their assignments, and Requests of every try of a request. In the end each
// of them returns a verdict, which counts what should not have happened. The oracle never talks to the service, and
// so cannot be misled by it.
//
// All types may be used by several goroutines at the same time.
package oracle
