// Package matchmaking is the vocabulary of matchmaking: a [Ticket] is a request to be matched, a queue, described by
// its [Definition], holds tickets that are matched with each other, a [Proposal] is a match that a match function
// suggests, and an [Assignment] is what each player of a match receives, as a message on the ticket's own channel. It
// also declares what the other packages need of storage, as small interfaces, which [Store] and [Lookup] gather.
//
// The packages below it do the work:
//
//	service    what the APIs call: tickets are created, read and cancelled, queues are defined and described
//	director   directs one queue: proposes matches, claims their tickets, finds each a server, assigns it
//	outbox     carries assignments from the queue's outbox to the channels of their tickets
//	function, assigner, callout    the parts that a definition names
//	onchannels implements delivery with channel.Service
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
// Of all servers one directs a queue, under a lease. Its memory is a hint: claiming and assigning decide. A match is
// assigned only if all of its tickets are alive, unassigned and still held by the director's claim. Then all of them
// are assigned in one step, which also puts the assignments into the queue's outbox. A relay publishes them under the
// message ID assignment-<match>, which makes repeats harmless, and removes them from the outbox afterwards.
//
//	failure                            consequence
//	a director dies                    its lease ends, and another takes over, with its claims; those for which an
//	                                   allocation may be in progress end at their deadline
//	a director is paused, and resumes  it has lost its lease and can't claim; what it had claimed it can assign until then
//	an allocation takes too long       the claim's deadline passes, assign refuses, the server is given back
//	a relay dies                       another finds the entry in the outbox and publishes it, perhaps again
//	a player leaves                    cancel and assign exclude each other: the first one wins
package matchmaking
