// Package sessions keeps the login sessions of users, with their devices and times.
//
// Start from [Service]. A session is identified by its token, which only the user has: tms_, 256 random bits, and the
// user, so that the key is found from the token alone. The storage has its SHA-256, which is the session's ID.
//
//	issued, err := service.Create(ctx, "ann", sessions.New{Username: "Ann"})
//	...
//	session, err := service.Check(ctx, issued.Token)
//
// A session ends when it is revoked, or when it was not checked for its TTL, 30 days by default. A check renews it if
// it was idle for a minute, or for a tenth of a TTL that is shorter than ten. A user has a bounded number of sessions:
// one more ends the one that was idle longest.
package sessions
