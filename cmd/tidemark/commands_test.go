package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/program/cli"
	"github.com/tidemark-dev/tidemark/internal/program/config"
)

const commandsPage = "../../docs/cli.md"

// commandsIn returns the commands of a group that can be run and are part of the help.
func commandsIn(root *cobra.Command, group string) (all []*cobra.Command) {
	for _, command := range root.Commands() {
		if cli.GroupOf(command) == group {
			all = append(all, runnable(command)...)
		}
	}
	return all
}

// runnable returns a command, or the commands below it.
func runnable(cmd *cobra.Command) (all []*cobra.Command) {
	switch {
	case cmd.Hidden:
		return nil
	case !cmd.HasSubCommands():
		return []*cobra.Command{cmd}
	}
	for _, below := range cmd.Commands() {
		all = append(all, runnable(below)...)
	}
	return all
}

// rootWithHelp returns the program's command with those that cobra adds when it runs.
func rootWithHelp() *cobra.Command {
	root := newRoot(cli.Terminal{})
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd("")
	return root
}

// TestEveryResultCanBeJSON checks that all commands have --json, except those that have no result.
func TestEveryResultCanBeJSON(t *testing.T) {
	t.Parallel()
	without := []string{"tidemark api", "tidemark serve", "tidemark console", "tidemark demo", "tidemark shards serve", "tidemark help",
		"tidemark completion bash", "tidemark completion fish", "tidemark completion powershell", "tidemark completion zsh"}
	root := rootWithHelp()
	for _, g := range root.Groups() {
		for _, cmd := range commandsIn(root, g.ID) {
			has := cmd.Flags().Lookup(cli.JSONFlag) != nil
			require.NotEqual(t, slices.Contains(without, cmd.CommandPath()), has, "%s: is --json there?", cmd.CommandPath())
		}
	}
}

// TestCommandsOfThePage compares the tables of commands on the page with the program, and the names of schemas in it
// with those of the HTTP API.
func TestCommandsOfThePage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(commandsPage)
	require.NoError(t, err)
	part := regexp.MustCompile(`(?s)(<!-- commands: .*? -->\n)(.*)(<!-- end of commands -->)`)
	require.Regexp(t, part, string(page))
	found := part.FindStringSubmatch(string(page))
	tables := commandTables()
	if *update {
		written := strings.Replace(string(page), found[0], found[1]+tables+found[3], 1)
		require.NoError(t, os.WriteFile(commandsPage, []byte(written), 0o644))
		return
	}
	require.Equal(t, tables, found[2], "go test ./cmd/tidemark -run CommandsOfThePage -update writes them")

	for _, of := range []any{config.ServerVariable, config.AdminVariable, config.TokenVariable, exitOK, exitFailure,
		exitUsage, exitLost, fmt.Sprint(exitSignal, " + n")} {
		require.Regexp(t, fmt.Sprintf("(?m)^\\| `?%s`? \\| ", regexp.QuoteMeta(fmt.Sprint(of))), string(page))
	}

	api, err := os.ReadFile("../../docs/openapi.yaml")
	require.NoError(t, err)
	_, schemas, _ := strings.Cut(string(api), "\n  schemas:\n")
	root := rootWithHelp()
	for _, g := range root.Groups() {
		for _, cmd := range commandsIn(root, g.ID) {
			f := cmd.Flags().Lookup(cli.JSONFlag)
			if f == nil {
				continue
			}
			for _, name := range regexp.MustCompile(`(?:JSON.*: |as in | or )([A-Z]\w+)`).FindAllStringSubmatch(f.Usage, -1) {
				require.Regexp(t, "(?m)^    "+name[1]+":$", schemas)
			}
		}
	}
}

// formOf returns the usage of --json without what the page says about all commands.
var formOf = strings.NewReplacer("print JSON, as without this flag", "always", "print what was changed as a line of JSON: ", "",
	"print a line of JSON: ", "", "print a line of JSON ", "").Replace

// commandTables returns a table of commands for each group.
func commandTables() string {
	var b strings.Builder
	root := rootWithHelp()
	cell := strings.NewReplacer("|", `\|`, "\n", " ").Replace
	for _, g := range root.Groups() {
		fmt.Fprintf(&b, "## %s\n\n| command | what it does | with `--json` |\n|---|---|---|\n", g.Title)
		for _, cmd := range commandsIn(root, g.ID) {
			form := ""
			if f := cmd.Flags().Lookup(cli.JSONFlag); f != nil {
				form = formOf(f.Usage)
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", cell(strings.TrimSuffix(cmd.UseLine(), " [flags]")), cell(cmd.Short),
				cell(form))
		}
		b.WriteString("\n")
	}
	return b.String()
}
