// Package simulate replays recorded tickets against a queue's definition, in virtual time and without Redis:
// [ReadTickets] reads them, and [Run] matches them with the definition's match function, in the rounds that a director
// holds.

package commands
