// Package load is the clients of a chaos run: publishers, subscribers and players. Each behaves as a good client does,
// which tries again with the same ID at another server, and reports every answer to the oracle.
package load
