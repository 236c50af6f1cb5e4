// Package load runs the clients of a chaos run: publishers, subscribers and players. They retry with the same ID on another
// server, as clients should, and report every response to package oracle. Start with [Load].
package load
