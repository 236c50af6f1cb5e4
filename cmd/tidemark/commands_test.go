package main

import (
	"slices"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/cli"
)

// eachCommand calls do with every command that can be run and is part of the help.
func eachCommand(do func(cmd *cobra.Command)) {
	root := newRoot(cli.Terminal{})
	root.InitDefaultCompletionCmd("bash")
	var below func(cmd *cobra.Command)
	below = func(cmd *cobra.Command) {
		for _, one := range cmd.Commands() {
			switch {
			case one.Hidden:
			case one.HasSubCommands():
				below(one)
			default:
				do(one)
			}
		}
	}
	below(root)
}

// TestEveryResultCanBeJSON checks that all commands have --json, except those that have no result.
func TestEveryResultCanBeJSON(t *testing.T) {
	t.Parallel()
	without := []string{"tidemark serve", "tidemark shards serve", "tidemark help", "tidemark completion bash",
		"tidemark completion fish", "tidemark completion powershell", "tidemark completion zsh", "tidemark version"}
	eachCommand(func(cmd *cobra.Command) {
		if !slices.Contains(without, cmd.CommandPath()) {
			require.NotNil(t, cmd.Flags().Lookup(cli.JSONFlag), "%s", cmd.CommandPath())
		}
	})
}
