// Package callout calls match functions and evaluators that are services of their own, over HTTP or through Open Match's
// gRPC services. Start with [Function] and [Evaluator].
//
// A call is never repeated here: the next round makes another one. The results are safe for concurrent use.
//
// # Match functions over HTTP
//
// The function receives, by POST, all waiting tickets, the oldest of each pool first:
//
//	{"queue": "duel", "profile": {"name": "…", "pools": […]},
//	 "pools": {"<name>": [{"id": "…", "createTime": "…", "searchFields": {…}, "criteria": […], …}, …]}}
//
// The response has status 2xx and the proposed matches:
//
//	{"matches": [{"id": "…", "teams": [["<ticket ID>", …], …], "score": 1.5, "extensions": {…}}, …]}
//
// With the content type application/x-ndjson it has one such match per line instead. Only teams is required. A match ID
// must be unique forever; without one the director makes one. A ticket may be in several matches, among which an evaluator chooses, but only once in each. A
// response that breaks a rule, contains a ticket that was not sent, or is incomplete, is rejected as a whole.
//
// # Match functions over gRPC
//
// The function is Open Match's MatchFunction service. It receives the profile and queries tickets from the QueryService.
// To name the queue there, it sends the metadata tidemark-queue. It receives the queue's name in the metadata of the call,
// and in the profile's extension tidemark.queue, a google.protobuf.StringValue. A match with a ticket that no longer waits
// is ignored. A match's score is in its extension evaluation_input, an openmatch.DefaultEvaluationCriteria. Open Match has
// no teams: if the queue has several, tickets are assigned to them in turn.
//
// # Evaluators
//
// Over HTTP, an evaluator receives, by POST,
//
//	{"queue": "duel", "proposals": [{"id": "…", "score": 1.5, "tickets": ["<ticket ID>", …], "extensions": {…}}, …]}
//
// and responds with status 2xx and the IDs of the matches to make: {"accepted": ["…", …]}. Over gRPC it is Open Match's
// Evaluator service. An ID that was not sent, or two accepted matches that share a ticket, fail the round.
package callout
