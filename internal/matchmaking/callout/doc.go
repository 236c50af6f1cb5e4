// Package callout calls match functions and evaluators that are separate services, over HTTP or through Open Match's
// gRPC services. Start with [Function] and [Evaluator].
//
// A failed call is not repeated here: the next round makes a new one. The results are safe for concurrent use.
//
// # Over HTTP
//
// docs/callouts.md describes the request and response bodies of functions and evaluators. A response that violates a
// rule there is rejected as a whole.
//
// # Over gRPC
//
// The function is Open Match's MatchFunction service. It receives the profile and queries tickets from the
// QueryService, with the queue's name in the metadata tidemark-queue. It receives the queue's name in the metadata of
// the call, and in the profile's extension tidemark.queue, a google.protobuf.StringValue. A match with a ticket that no
// longer waits is ignored. A match's score is in its extension evaluation_input, an
// openmatch.DefaultEvaluationCriteria. Open Match has no teams: if the queue has several, tickets are assigned to them
// in turn.
//
// Open Match's Evaluator service receives the proposals, each with a score, and streams the IDs of the matches to make.
// An unknown ID, or two accepted matches that share a ticket, fail the round.
package callout
