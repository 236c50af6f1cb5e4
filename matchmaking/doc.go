// Package matchmaking takes tickets, forms matches of them, and delivers each assignment as a message on the
// ticket's own channel.
//
// A ticket lives in a queue. All of a queue's state is in one slot of the storage, so that each step is one script:
//
//	          create                  claim                 assign
//	player ───────────► SEARCHING ───────────► PENDING ───────────────► MATCH_FOUND ──► outbox ──► channel
//	                        ▲  │                  │  │                                   relay    ticket.<id>
//	                        │  │     release,     │  │
//	                        └──┼── deadline over ─┘  │
//	                           ▼                     ▼
//	                        CANCELLED, EXPIRED ◄─────┘
//
// A director, one for each queue across all servers, holds the waiting tickets in memory and proposes matches as
// tickets arrive. Its memory is a hint: claiming and assigning decide. A match is assigned only where every ticket
// of it is alive, unassigned and still held by the director's claim; then all of them are, in one step, and the
// assignments stand in the queue's outbox. A relay publishes what stands there under the message ID
// assignment-<match>, which makes repeats harmless, and only then removes it.
//
//	what fails                        what follows
//	a director dies                   its lease ends, another takes over, with its claims; where an allocation may be
//	                                  under way for them they end at their deadline
//	a director is paused, and wakes   it has no lease: it can't claim; what it had claimed it can assign until then
//	an allocation takes too long      the claim's deadline passes, assign refuses, the server is given back
//	a relay dies                      the next one finds the entry in the outbox and publishes it, perhaps again
//	a player leaves                   cancel and assign exclude each other: whichever is first holds
package matchmaking
