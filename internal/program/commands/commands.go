package commands

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/tidemark-dev/tidemark/internal/program/cli"
)

// Clients returns the commands that are clients of a service, in their groups.
func Clients(t cli.Terminal) []*cobra.Command {
	return slices.Concat(
		cli.In(cli.Everyday, newPublish(t), newSubscribe(t), newStatus(t), newConsole(t)),
		cli.In(cli.Messages, newUnsubscribe(t), newAck(t), newChannel(t), newSubscriber(t)),
		cli.In(cli.Matchmaking, newTicket(t), newMatch(t), newQueue(t)),
		cli.In(cli.Records, newLock(t), newUnlock(t), newSettings(t), newViews(t)),
		cli.In(cli.Service, newAPI(t), newDemo(t), newDrain(t), newHistory(t), newReload(t), newResume(t),
			newSlowLog(t), newSurvey(t)),
		cli.In(cli.Access, newKey(t), newOAuth(t), newRefused(t), newRevoke(t), newSession(t), newWhoami(t)),
	)
}
