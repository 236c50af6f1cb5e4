// Package records is the commands of tidemark for records, a file for each resource.
package records

import (
	"github.com/spf13/cobra"

	"github.com/tidemark-dev/tidemark/internal/cli"
)

// Commands returns the commands.
func Commands(t cli.Terminal) []*cobra.Command {
	return []*cobra.Command{
		newCache(t),
		newKinds(t),
		newLock(t),
		newUnlock(t),
		newSession(t),
		newState(t),
		newStats(t),
		newViews(t),
		newCache(t),
		newKeyset(t), newOAuth(t), newSettings(t), newVerify(t),
	}
}
