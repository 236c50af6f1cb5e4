package cli

import "github.com/spf13/cobra"

// The groups of commands in the program's help. The zero group is Other.
const (
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
		&cobra.Group{ID: Service, Title: "Service"},
		&cobra.Group{ID: Messages, Title: "Messages"},
		&cobra.Group{ID: Matchmaking, Title: "Matchmaking"},
		&cobra.Group{ID: Records, Title: "Records"},
		&cobra.Group{ID: Shards, Title: "Shards"},
		&cobra.Group{ID: Access, Title: "Access"},
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

// renamed is the annotation of a command with an old name: its path of today below the program's command.
const renamed = "renamed"

// Renamed returns a command that runs under an old name, and isn't part of the help. path is where the command is now,
// such as "channel show".
func Renamed(old, path string, cmd *cobra.Command) *cobra.Command {
	cmd.Use = old + cmd.Use[len(cmd.Name()):]
	cmd.Hidden, cmd.GroupID = true, ""
	cmd.SuggestFor = nil
	cmd.Annotations = map[string]string{renamed: path}
	return cmd
}

// nameOfToday returns the path of a command that was called by an old name, or "".
func nameOfToday(cmd *cobra.Command) string {
	rest := ""
	for at := cmd; at != nil; at = at.Parent() {
		if path, ok := at.Annotations[renamed]; ok {
			return cmd.Root().Name() + " " + path + rest
		}
		rest = " " + at.Name() + rest
	}
	return ""
}

// ReportRenamed names the command of today if cmd was called by an old name.
func ReportRenamed(t Terminal, cmd *cobra.Command) {
	if today := nameOfToday(cmd); today != "" {
		t.Report("%q is now %q: the old name still works", cmd.CommandPath(), today)
	}
}
