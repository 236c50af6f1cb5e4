// Package cli has the common parts of the commands of cmd/tidemark and internal/program/commands: the terminal, usage
// errors and their hints, the flags of commands that are clients of a service, and their input and output.
//
// A command that calls a service starts at [AddConnection], which adds the flags for the service's address, and ends
// with [Connection.Handle], which makes the client and passes it to the command's function.
package cli
