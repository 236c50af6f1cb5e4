// Package callout calls the match functions and evaluators of those who don't embed this module: services of their
// own, over HTTP or by Open Match's gRPC services.
//
// # Match functions over HTTP
//
// The function is sent, by POST, all tickets that wait, the oldest of each pool first:
//
//	{"queue": "duel", "profile": {"name": "…", "pools": […]},
//	 "pools": {"<name>": [{"id": "…", "createTime": "…", "searchFields": {…}, "criteria": […], …}, …]}}
//
// and answers 2xx with the matches that it would like to make:
//
//	{"matches": [{"id": "…", "teams": [["<ticket's id>", …], …], "score": 1.5, "extensions": {…}}, …]}
//
// or, with the content type application/x-ndjson, with one such match a line, as it finds them. Only teams must be
// there. An ID names a match for good: a function that gives IDs never gives one twice. A ticket may be in several
// matches, of which an evaluator chooses, but only once in each. An answer that breaks a rule, or that has a ticket
// that wasn't sent, is refused as a whole, as is one that breaks off: then nothing is proposed.
//
// # Match functions over gRPC
//
// The function is Open Match's MatchFunction service. It gets the profile and reads tickets by itself, through the
// QueryService: for the right queue it sends the metadata tidemark-queue, which it gets with the call, and which is
// in the profile's extensions too, as a google.protobuf.StringValue named tidemark.queue. A match with tickets that
// don't wait any more is left out. A score is read from the match's extension evaluation_input, an
// openmatch.DefaultEvaluationCriteria. Open Match knows no teams: where the queue says how many there are, tickets
// are dealt out to them in turn; else all of a match are one team.
//
// # Evaluators
//
// Over HTTP an evaluator is sent, by POST,
//
//	{"queue": "duel", "proposals": [{"id": "…", "score": 1.5, "tickets": ["<id>", …], "extensions": {…}}, …]}
//
// and answers 2xx with the IDs of the matches to make: {"accepted": ["…", …]}. Over gRPC it is Open Match's
// Evaluator service. Either way an ID that wasn't sent, or two matches that share a ticket, fail the round.
//
// Nothing here is called a second time by itself: the next round does that.
package callout
