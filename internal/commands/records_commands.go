// Package records is the commands of tidemark for records, a file for each resource.

package commands

import (
	"github.com/spf13/cobra"

	"github.com/tidemark-dev/tidemark/internal/cli"
)

// commands returns the commands.
func commands(t cli.Terminal) []*cobra.Command {
	return []*cobra.Command{
		newCache(t),
		newKeyset(t),
		newKinds(t),
		newLock(t),
		newOAuth(t),
		newUnlock(t),
		newFollowing(t),
		newSession(t),
		newSettings(t),
		newState(t),
		newStats(t),
		newVerify(t),
		newViews(t),
	}
}
