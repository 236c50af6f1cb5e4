// Package routes is a client's map: which host has which sharding keys. It is learnt from the answers of the hosts, which may
// arrive late, out of order, or never.
//
// Each request has a number, which is given out when it is sent. What the answer to a request with a higher number said about its
// host stands. A [Table] keeps that. A [Snapshot] is made of it when somebody looks something up after a change: the places at which
// the set of hosts changes, in order.
package routes
