// Package locks implements locks for applications: the exclusive ownership of an operation on an entity, for a limited
// time.
//
// A lock is a lease of package lease, whose holder is a client of the service and identified by a token. Start from
// [Service]. A holder gets a fence, a number that is higher for each new holder. It renews the lock before its time has
// passed, and releases it:
//
//	Acquire ──► held until … ──► Renew ──► held until … ──► Release
//	               │                                          │
//	               └── the time passes: ErrLost ◄─────────────┘ if another has got it
//
// Redis has the SHA-256 of the token only.
package locks
