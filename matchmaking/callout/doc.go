// Package callout calls match functions and evaluators that are services of their own, over HTTP or through Open
// Match's gRPC services. Start with [Function] and [Evaluator].
//
// A call is never repeated here: the next round makes another one. The results are safe for concurrent use.
//
// # Over HTTP
//
// docs/callouts.md has the bodies that functions and evaluators are sent and answer with. A response that breaks a rule
// there is rejected as a whole.
//
// # Over gRPC
//
// The function is Open Match's MatchFunction service. It receives the profile and queries tickets from the
// QueryService. To name the queue there, it sends the metadata tidemark-queue. It receives the queue's name in the
// metadata of the call, and in the profile's extension tidemark.queue, a google.protobuf.StringValue. A match with a
// ticket that no longer waits is ignored. A match's score is in its extension evaluation_input, an
// openmatch.DefaultEvaluationCriteria. Open Match has no teams: if the queue has several, tickets are assigned to them
// in turn.
//
// Open Match's Evaluator service is sent the proposals, each with a score, and streams the IDs of the matches to make.
// An ID that was not sent, or two accepted matches that share a ticket, fail the round.
package callout
