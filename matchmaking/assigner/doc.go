// Package assigner contains the built-in assigners, which find a game server for a match. Start with [New].
//
//	static    the same text for every match, in which the match's ID and the queue's name can be inserted
//	webhook   your own service, called over HTTP with a signed body
//	agones    the allocator service of Agones, called over its REST API
//
// All assigners are safe for concurrent use.
//
// # Webhooks
//
// A webhook is one URL that serves two kinds of POST requests. This one allocates a connection:
//
//	{"action": "allocate", "matchId": "…", "queue": "…", "extensions": {…},
//	 "teams": [[{"id": "…", "createTime": "…", "searchFields": {…}, "extensions": {…}}, …], …]}
//
// The response has status 2xx and the body
//
//	{"connection": "203.0.113.7:7777", "extensions": {…}, "token": "…"}
//
// Only connection is required. The players receive extensions; the webhook receives token again when the connection is
// released. That is the other request, sent if the match failed and no player was told of the connection:
//
//	{"action": "release", "matchId": "…", "queue": "…", "connection": "…", "token": "…", "extensions": {…}}
//
// It has only matchId and queue if there was no response to the allocation. Any status of 2xx, 404 and 410 is a success;
// the body is ignored.
//
// Both requests are repeated, with growing pauses, after network errors and the statuses 408, 425, 429 and 5xx (honoring
// Retry-After), until shortly before the deadline of the match's claim. All repetitions have the same Idempotency-Key: the
// match's ID for an allocation, and "release-" followed by it for a release. For a match that it has seen before, a webhook
// must return the same connection again. Any other status, redirects included, and an invalid response fail the match.
//
// With a secret, each request has the headers Tidemark-Timestamp, in Unix seconds, and Tidemark-Signature, which is "v1="
// followed by the hex HMAC-SHA256 of "<timestamp>.<body>" under the secret. [Verifier] checks them.
//
// # Agones
//
// The allocator is asked for a Ready game server that the selector's labels match. The game server gets the label
// tidemark.dev/match, and annotations tidemark.dev/match and tidemark.dev/queue. If no game server is available, or the
// failure is temporary, the request is repeated until shortly before the deadline of the match's claim.
//
// Agones has no idempotency keys. So each request first selects, by the label, an Allocated game server that an earlier
// request got whose response was lost, and only then a Ready one. Agones is eventually consistent: within about a second of
// the lost response, a repetition may miss that game server and allocate another one. Agones cannot release a game server
// either. Release sets the label tidemark.dev/released to "true", which a game server can watch through the Agones SDK. A
// game server that doesn't watch it must shut down when nobody connects for a while, or it stays Allocated.
//
// The allocator must accept connections without a client certificate. A bearer token can be sent.
package assigner
