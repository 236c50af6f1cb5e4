package commands

import (
	"github.com/spf13/cobra"

	"github.com/tidemark-dev/tidemark/internal/cli"
)

// Clients returns the commands that are clients of a service.
func Clients(t cli.Terminal) []*cobra.Command {
	return []*cobra.Command{
		// Channels and matchmaking.
		newPublish(t), newSubscribe(t), newUnsubscribe(t), newAck(t), newChannel(t), newTicket(t), newMatch(t),
		newQueue(t), newKey(t), newRevoke(t),
		// Records.
		newCache(t), newKeyset(t), newKinds(t), newLock(t), newOAuth(t), newUnlock(t), newFollowing(t), newSession(t),
		newSettings(t), newState(t), newStats(t), newVerify(t), newViews(t),
	}
}
