package cli

import "github.com/spf13/cobra"

// The groups of commands in the program's help. The zero group is Other.
const (
	Everyday    = "everyday"
	Service     = "service"
	Messages    = "messages"
	Matchmaking = "matchmaking"
	Records     = "records"
	Shards      = "shards"
	Access      = "access"
	Other       = "other"
)

// AddGroups adds the groups to the program's command, in the order of its help.
func AddGroups(root *cobra.Command) {
	root.AddGroup(
		&cobra.Group{ID: Everyday, Title: "Everyday"},
		&cobra.Group{ID: Messages, Title: "Messages"},
		&cobra.Group{ID: Matchmaking, Title: "Matchmaking"},
		&cobra.Group{ID: Records, Title: "Records"},
		&cobra.Group{ID: Shards, Title: "Shards"},
		&cobra.Group{ID: Access, Title: "Access"},
		&cobra.Group{ID: Service, Title: "Service"},
		&cobra.Group{ID: Other, Title: "Other"},
	)
	root.SetHelpCommandGroupID(Other)
	root.SetCompletionCommandGroupID(Other)
}

// In puts commands into a group.
func In(group string, commands ...*cobra.Command) []*cobra.Command {
	for _, cmd := range commands {
		cmd.GroupID = group
	}
	return commands
}
