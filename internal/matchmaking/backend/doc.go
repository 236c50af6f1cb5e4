// Package backend fetches matches for queues that their user directs: it runs match functions, lets an evaluator decide
// between their proposals, hands out the tickets of the accepted ones, and returns these to the callers. Open
// Match calls this its synchronizer. Start with [Synchronizer.Fetch].
//
// # Cycles
//
// The calls of a queue that reach a server are served in cycles. All calls of a cycle share one evaluation, and a cycle
// begins when the hand-outs of the one before have ended:
//
//	function of each call ─► proposals ─► evaluator ─► hand-out in the storage ─► buffer of each call ─► its caller
//
// A match goes all the way while the functions still run and the evaluator still receives proposals. Without intervals
// in the queue's definition, a call without a cycle begins one at once, and the calls that arrive while it runs are
// served together by the next. With a registrationInterval a cycle also takes the calls that arrive so long after its
// first one. With a proposalCollectionInterval functions that run so long after the registration are cancelled.
//
// # Several servers
//
// Each server runs cycles for its own calls. An evaluator doesn't see the proposals of calls that reached other servers.
// Nothing depends on it for safety: a ticket is handed out once because the storage's hand-out refuses tickets that are
// held, and the later match is dropped.
//
// # Failures
//
//	what fails                          what follows
//	a function                          its call fails with the function's error, after the accepted matches
//	the evaluator                       all calls of the cycle fail with the evaluator's error
//	an ID is proposed twice             by one function: its call fails at once; by two: both calls
//	a caller cancels, or reads slowly   its function is cancelled; the tickets of matches that it did not get are released
//	the server                          its calls fail as unavailable; tickets that it handed out wait for the time-out
package backend
