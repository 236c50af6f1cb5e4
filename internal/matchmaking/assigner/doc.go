// Package assigner contains the built-in assigners, which find a game server for a match. Start with [New].
//
//	static    the same text for every match, in which the match's ID and the queue's name can be inserted
//	webhook   an operator's service, called over HTTP with a signed body
//	agones    the allocator service of Agones, called over its REST API
//
// All assigners are safe for concurrent use.
//
// # Webhooks
//
// A webhook is one URL that receives two kinds of POST requests: to allocate a connection for a match, and to release a
// connection that was sent to no player. docs/callouts.md describes the bodies, headers and retries. [Verifier] checks
// signatures.
//
// # Agones
//
// The allocator is asked for a Ready game server that the selector's labels match. The game server gets the label
// tidemark.dev/match, and annotations tidemark.dev/match and tidemark.dev/queue. If no game server is available, or the
// failure is temporary, the request is repeated until shortly before the deadline of the match's claim.
//
// Agones has no idempotency keys. So each request first selects, by the label, an Allocated game server of an earlier
// request with a lost response, and only then a Ready one. Agones is eventually consistent: within about a second of
// the lost response, a repetition may miss that game server and allocate another one. Agones cannot release a game
// server either. Release sets the label tidemark.dev/released to "true", which a game server can watch through the
// Agones SDK. A game server that doesn't watch it must shut down after some time without players, or it stays
// Allocated.
//
// The allocator must accept connections without a client certificate. A bearer token can be sent.
package assigner
