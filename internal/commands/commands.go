// Package commands is the commands of tidemark that are clients of a service, a file each. Each file begins with the
// function that returns the command; [Clients] returns all of them.
package commands

import (
	"github.com/spf13/cobra"

	"github.com/tidemark-dev/tidemark/internal/cli"
)

// Clients returns the commands that are clients of a service.
func Clients(t cli.Terminal) []*cobra.Command {
	return append([]*cobra.Command{
		newPublish(t), newSubscribe(t), newUnsubscribe(t), newAck(t), newChannel(t), newTicket(t), newMatch(t),
		newQueue(t), newKey(t), newRevoke(t),
	}, commands(t)...)
}
