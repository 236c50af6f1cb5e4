// Package matchmaking is the vocabulary of matchmaking: a [Ticket] is a request to be matched, a queue, described by
// its [Definition], holds tickets that are matched with each other, a [Proposal] is a match that a match function
// suggests, and an [Assignment] is sent to each player of a match, as a message on the ticket's own channel. It
// also declares the storage interfaces of the other packages; [Store] and [Lookup] combine them.
//
// The packages below it do the work:
//
//	service            the operations of the APIs: create, read and cancel tickets, define and describe queues
//	round              keeps waiting tickets in memory, and forms matches of them
//	internal/director  directs one queue: proposes matches, claims their tickets, allocates servers, assigns the matches
//	internal/outbox    carries assignments from the queue's outbox to the channels of their tickets
//	internal/watch     lets requests wait for assignments
//	function, assigner, callout  the parts that a definition configures; builder builds them
//	delivery           delivers assignments through channel.Service, again to players that poll if they were lost
//
// All of a queue's state is in one slot of the storage, so that each step is one script:
//
//	          create                  claim                 assign
//	player ───────────► SEARCHING ───────────► PENDING ───────────────► MATCH_FOUND ──► outbox ──► channel
//	                        ▲  │                  │  │                                   relay    ticket.<id>
//	                        │  │     release,     │  │
//	                        └──┼── deadline over ─┘  │
//	                           ▼                     ▼
//	                        CANCELLED, EXPIRED ◄─────┘
//
// One server at a time directs a queue, under a lease. Its memory is only a hint: claim and assign are authoritative. A
// match is assigned only if all of its tickets are alive, unassigned and still held by the director's claim. Then all
// of them are assigned in one step, which also puts the assignments into the queue's outbox. A relay publishes them
// under the message ID assignment-<match>, which makes repeats harmless, and removes them from the outbox afterwards.
//
//	failure                            consequence
//	a director dies                    its lease expires, and another server takes over it and its claims; a claim whose
//	                                   allocation may be in progress ends at its deadline
//	a director is paused, and resumes  without its lease it can't claim; it can assign claimed tickets until the deadline
//	an allocation takes too long       the claim's deadline passes, assign fails, the server is released
//	a relay dies                       another relay finds the entry in the outbox and publishes it, perhaps again
//	a player leaves                    cancel and assign exclude each other: the first call wins
package matchmaking
