// Package function has the match functions that are built in, the filters of pools, and the built-in evaluator.
//
// [FirstCome] and [Criteria] are Matchers that keep what they need from one round to the next. [Own] makes a Matcher of
// a MatchFunction. [Filtered] puts the pools of a profile before any of them. [Decollide] chooses among proposals that
// share tickets.
//
//	tickets ──► Filtered ──► one Matcher a pool: FirstCome or Criteria ──► proposals ──► Decollide
//	        └─► Own, which hands the pools to your own function ─────────┘
//
// A Matcher has one owner, whose goroutine calls its methods; an evaluator and [Pass] may be used by many.
package function
