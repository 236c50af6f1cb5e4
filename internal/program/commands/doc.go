// Package commands is the commands of tidemark that are clients of a service, and those that show and change how caches
// are split into shards, a file for each resource. A file begins with the function that returns the command. Start from
// [Clients] and [Shards].
//
// "queue simulate" replays recorded tickets (recording.go) against a queue's definition, in virtual time and without
// Redis (simulation.go): it runs the match function in the rounds that a director holds.
package commands
