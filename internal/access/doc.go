// Package access decides which actions a client may perform.
//
// A [Guard] is the type to start from. A request comes with a credential, which the guard turns into a [Principal] by
// one of its authenticators: API keys, JSON Web Tokens, tokens of tickets, sessions. Then the guard checks each
// [Action] of the principal on a [Resource]:
//
//	p, err := guard.Authenticate(ctx, credential)
//	...
//	err = guard.Check(ctx, p, access.Publish, access.Resource{Channel: "chat.lobby"})
//
// The permissions of a principal are its [Grants], which come with its credential, and the rules of the channel
// ([ChannelRule]). A nil guard belongs to an open service: it allows everything to everybody.
//
//	credential ──► Authenticator ──► Principal ──► Check ──► nil, 401 or 403
//	                                    │            ▲
//	                                    └─ Grants ───┤
//	                                    channel rules ┘
//
// A request that waits does so under [Guard.Hold], whose context ends when the credential expires or is revoked, or
// when a change of the rules withdraws what only a rule allowed the request.
//
// Checks need no storage, except that of a ticket's owner, which [Owners] keeps in memory. All functions may be called
// by any number of goroutines.
package access
