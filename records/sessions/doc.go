// Package sessions keeps the sessions of users: who is logged in, on which device, and since when.
//
// Start from [Service]. A session is known by its token, which only the user has: tms_, 256 random bits, and the user,
// so that the key is found from the token alone. The storage has its SHA-256, which is the session's ID.
//
//	issued, err := service.Create(ctx, "ann", sessions.New{Username: "Ann"})
//	...
//	session, err := service.Check(ctx, issued.Token)
//
// A session ends when it is revoked, and when it wasn't checked for its life, 30 days as a rule. A check renews it if a
// tenth of that is gone. A user has a bounded number of sessions: with one more, the one that is idle for longest ends.
//
// # Sessions of the source
//
// With Options.Legacy, sessions that applications of the source schema made are accepted, too: the credential is what
// their browsers hold, a JSON Web Token or <user>-<username>-<token>. Its first check makes a session of it, under the
// SHA-256 of the token, and then removes the source's key, which has the token in the clear. The two keys have
// different slots. If a process ends in between, nothing is lost: the next check removes the key. The signature of the
// token isn't verified: it is the key's existence that proves a session.
package sessions
