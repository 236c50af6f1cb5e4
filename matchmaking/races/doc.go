// Package races holds tests of matchmaking as players see it while everything happens at the same time: several
// servers direct a queue, take it from each other, die and come back, the queue's slot moves between the nodes of a
// cluster, allocations take too long, and players create, cancel and read tickets all the while. In the end each test
// asks every ticket's channel what came to it, and compares that with what the servers did and what the players were
// answered:
//
//   - no ticket is in two matches, and the tickets of a match are those that got its message, each once;
//   - a ticket whose cancellation succeeded, or that expired, got none; one that was too late to cancel got one;
//   - a claim kept others out until its deadline, and no longer;
//   - a place to play at is either that of an assigned match, or was given back.
//
// There is nothing here but tests.
package races
