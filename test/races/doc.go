// Package races has only tests: of matchmaking on a real Redis, with everything happening at the same time. Several
// servers direct a queue, take it from each other, crash and come back, the queue's slot moves between the nodes of a
// Cluster, allocations take too long, subscriptions are cut, and players create, cancel, wait for and read tickets.
//
// At the end, each test reads every ticket and its channel, and compares them with what the servers did and what the
// players received:
//
//   - No ticket is in two matches, and exactly the tickets of a match received its message, each once.
//   - Every player who waited for the assignment in memory, on whichever server, got the one of the ticket.
//   - A ticket that was cancelled or has expired received no message. A ticket whose cancellation came too late
//     received one.
//   - No one else claimed a claimed ticket before the deadline of the claim.
//   - An allocation belongs to an assigned match, or was released once.
package races
