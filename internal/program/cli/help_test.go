package cli_test

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/program/cli"
)

// program returns a command with others in two groups.
func program(t cli.Terminal) *cobra.Command {
	root := &cobra.Command{Use: "tidemark", Long: strings.Repeat("words of the long text ", 20)}
	show := func() *cobra.Command {
		cmd := &cobra.Command{Use: "show CHANNEL", Short: strings.Repeat("a long line of what it does ", 6),
			Args: cli.Arguments(1, 1), Example: "  tidemark channel show lobby", Run: func(*cobra.Command, []string) {}}
		cli.AddConnection(cmd, t, 0)
		cmd.Flags().Bool("json", false, "print the answer of the HTTP API, as one line of JSON")
		return cmd
	}
	cli.AddGroups(root)
	cli.SetHelp(root, t)
	root.AddCommand(cli.In(cli.Messages, cli.NewGroup("channel", "Show channels", show()))...)
	root.AddCommand(&cobra.Command{Use: "odd", Short: "Of no group", Run: func(*cobra.Command, []string) {}})
	cli.NamePlaceholders(root)
	return root
}

func TestHelpIsWrapped(t *testing.T) {
	t.Parallel()
	for _, width := range []int{60, 80, 120} {
		root := program(cli.Terminal{})
		show, _, err := root.Find([]string{"channel", "show"})
		require.NoError(t, err)
		for _, cmd := range []*cobra.Command{root, show} {
			var help bytes.Buffer
			require.NoError(t, cli.WriteHelp(&help, cmd, width))
			for line := range strings.Lines(help.String()) {
				require.LessOrEqual(t, utf8.RuneCountInString(line)-1, width, line)
			}
		}
	}
}

func TestGroupsOfTheHelp(t *testing.T) {
	t.Parallel()
	var out, errors bytes.Buffer
	root := program(cli.Terminal{Stdout: &out, Stderr: &errors})
	root.SetArgs([]string{"--help"})
	require.NoError(t, root.Execute())
	require.Regexp(t, `(?s)\nMessages:\n  channel +Show channels\n\nOther:\n.*  odd +Of no group\n`, out.String())
	require.NotContains(t, out.String(), "Service:", "it has no commands here")

	out.Reset()
	root.SetArgs([]string{"channel", "show", "--help"})
	require.NoError(t, root.Execute())
	require.Regexp(t, `(?s)\nFlags:\n  -h, --help .*--json.*\nConnection:\n.*--server URL`, out.String())
}
