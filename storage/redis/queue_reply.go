package redis

import "github.com/tidemark-dev/tidemark/matchmaking"

// The statuses of the scripts of queues, besides those that all scripts have.
const (
	statusFull     Status = "FULL"
	statusConflict Status = "CONFLICT"
	statusKept     Status = "KEPT"
)

var queueRefusals = Refusals{
	statusFull:  matchmaking.ErrQueueFull,
	"NO_TICKET": matchmaking.ErrNoTicket,
	"VACANT":    matchmaking.ErrNoTicket,
	"MATCHED":   matchmaking.ErrTicketMatched,
	"LEASE":     matchmaking.ErrLeaseLost,
	"LOST":      matchmaking.ErrChangesLost,
	"IDLE":      matchmaking.ErrQueueIdle,
	"UNDONE":    errUndone,
}
