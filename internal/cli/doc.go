// Package cli is what the commands of cmd/tidemark and internal/commands share: the terminal, usage errors and their
// hints, the flags of commands that are clients of a service, and how they read and write.
//
// A command that calls a service starts at [AddConnection], which adds the flags that say where the service is, and
// ends with [Connection.Handle], which makes the client and passes it to the command's function.
package cli
