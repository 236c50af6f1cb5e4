// Package director directs queues: it holds a queue's waiting tickets in memory, forms matches of them, and assigns
// those matches. Start at [Queue], which works on one queue under one definition on this server. Of all servers only
// the one that has the queue's lease directs it.
//
// A queue is idle while it has neither tickets nor outgoing assignments. An idle queue uses one goroutine and one
// watch. When the watch reports a change, the queue acquires the lease and directs until the lease is lost or the queue
// is idle again:
//
//	Queue ──► director: the lease ──► term: a loop over
//	                                    feed     reads tickets and changes from the storage   (goroutine)
//	                                    sweeper  takes expired tickets out of the storage     (goroutine)
//	                                    pool     the tickets in memory                        (package round)
//	                                    round    forms matches of the pool                    (package round)
//	                                    maker    claims if need be, allocates, assigns        (maker.go)
//	                                    losses   looks for tickets that the storage has lost
//
// The pool is a hint: the store's Claim and Assign decide. A failing store, match function or assigner is logged once
// when it begins and once when it ends, and tried again with a backoff. A lost lease ends the term; its matches in
// progress then finish or fail without it.
package director
