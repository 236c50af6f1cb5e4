// Package function contains the built-in match functions, the filters of pools, and the built-in evaluator.
//
// Start with [FirstCome] or [Criteria]. Both return a [matchmaking.Matcher], which keeps its state from one round to
// the next. [Custom] makes a Matcher of a [matchmaking.MatchFunction]. [Filtered] applies the pools of a profile before
// any of them. [Decollide] chooses among proposals that share tickets.
//
//	tickets ──► Filtered ──► one Matcher per pool: FirstCome or Criteria ──► proposals ──► Decollide
//	        └─► Custom, which passes the pools to your function ─────────┘
//
// FirstCome never fails. Criteria fails only with its context. Custom fails with the errors of the function, [ErrPanic]
// and [ErrProposal].
//
// A Matcher must be used by one goroutine at a time. Decollide and [Pass] may be used by several.
package function
