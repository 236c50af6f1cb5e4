// Package assigner finds matches a place to play at: it has the assigners that a queue can be defined with.
//
//	static    the same text for every match, with the match's and the queue's name in it where wanted
//	webhook   your own service, called over HTTP with a signed body
//	agones    the allocator service of Agones, over its REST API
//
// # Webhooks
//
// A webhook is one URL that answers two kinds of POST. To find a place:
//
//	{"action": "allocate", "matchId": "…", "queue": "…", "extensions": {…},
//	 "teams": [[{"id": "…", "createTime": "…", "searchFields": {…}, "extensions": {…}}, …], …]}
//
// is answered 2xx with
//
//	{"connection": "203.0.113.7:7777", "extensions": {…}, "token": "…"}
//
// where only connection must be there: extensions go to the players, and token comes back when the place is given
// back. That is the other call, made where the match fell through and no player was told of the place:
//
//	{"action": "release", "matchId": "…", "queue": "…", "connection": "…", "token": "…", "extensions": {…}}
//
// Where no answer to allocate was seen, it has only the match and the queue. Any 2xx, 404 or 410 is fine, its body
// doesn't matter.
//
// Both are tried again, with growing pauses, where there is no answer or it is 408, 425, 429 or 5xx (Retry-After is
// honoured), until the deadline of the match's claim is near. All tries of a call have the same Idempotency-Key:
// the match's ID to allocate, the same with "release-" in front to release. A webhook must give a match that it
// sees again the place that it gave before. Every other status, a redirect too, and an answer that can't be read
// end the match.
//
// With a secret, each call carries Tidemark-Timestamp, in seconds since 1970, and Tidemark-Signature, which is
// "v1=" and the HMAC-SHA256 of "<timestamp>.<body>" under the secret, in hex. [Verifier] checks them.
//
// # Agones
//
// The allocator is asked for a Ready game server that the selector's labels match. The game server gets the label
// tidemark.dev/match and annotations of that name and tidemark.dev/queue. None being available is tried again until
// the deadline of the match's claim is near, as is all else that may pass.
//
// Agones's allocator knows no idempotency key, so a repeat first selects, by the label, an Allocated game server that
// an earlier call got whose answer was lost, and only then a Ready one. Agones is eventually consistent: within
// about a second of the lost answer a repeat may miss it and take another game server. Nor can the allocator give a
// game server back. Release does what it can: it sets the label tidemark.dev/released to "true", which the game
// server can watch through Agones's SDK. A game server that doesn't must shut itself down when nobody connects for
// a while, or it stays Allocated.
//
// The allocator must be reachable without a client certificate; a bearer token can be sent.
package assigner
