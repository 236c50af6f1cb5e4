// Package routes is a client's map: which host has which sharding keys. It is learnt from the answers of the hosts,
// which may arrive late, out of order, or never.
//
// Each request has a number, which rises with each that is sent. Of the answers of a host the one to the request with
// the highest number counts. A [Table] keeps these. A [Snapshot] is built from it by the first lookup after a change:
// the sharding keys at which the set of hosts changes, in order.

package shard
