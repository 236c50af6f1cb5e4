package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tidemark-dev/tidemark/internal/program/config"
	"github.com/tidemark-dev/tidemark/internal/program/suggest"
	"github.com/tidemark-dev/tidemark/internal/program/wrap"
)

// The width of help: that of the terminal within these bounds.
const (
	leastHelpWidth = 40
	mostHelpWidth  = 120
	pipedHelpWidth = 100 // if standard output isn't a terminal
)

// HelpWidth returns the width that help is wrapped to.
func (t Terminal) HelpWidth() int {
	width := t.Width()
	if width == 0 {
		return pipedHelpWidth
	}
	return min(max(width, leastHelpWidth), mostHelpWidth)
}

// SetHelp makes cmd, and all commands below it that have no help of their own, write help that is wrapped to the width
// of the terminal.
func SetHelp(cmd *cobra.Command, t Terminal) {
	cmd.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		_ = WriteHelp(t.Stdout, cmd, t.HelpWidth()) // where it can't be written, an error can't be, either
	})
	cmd.SetUsageFunc(func(cmd *cobra.Command) error {
		_, err := io.WriteString(t.Stdout, usage(cmd, t.HelpWidth()))
		return err
	})
}

// WriteHelp writes the help of a command, wrapped to a width.
func WriteHelp(w io.Writer, cmd *cobra.Command, width int) error {
	about := cmd.Long
	if about == "" {
		about = cmd.Short
	}
	_, err := io.WriteString(w, wrap.Paragraphs(about, width)+"\n"+usage(cmd, width))
	return err
}

// usage returns how a command is called. Examples aren't wrapped, so that they can be copied.
func usage(cmd *cobra.Command, width int) string {
	var b strings.Builder
	b.WriteString("Usage:\n")
	if !cmd.HasAvailableSubCommands() {
		b.WriteString("  " + strings.Join(wrap.Lines(cmd.UseLine(), width-4), "\n    ") + "\n")
	} else {
		b.WriteString("  " + cmd.CommandPath() + " COMMAND\n")
	}
	if len(cmd.Aliases) > 0 {
		b.WriteString("\nAliases:\n  " + cmd.NameAndAliases() + "\n")
	}
	if cmd.HasExample() {
		b.WriteString("\nExamples:\n" + cmd.Example + "\n")
	}
	writeCommands(&b, cmd, width)
	own, connection := pflag.NewFlagSet("", pflag.ContinueOnError), pflag.NewFlagSet("", pflag.ContinueOnError)
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Annotations[config.ConnectionFlag] == nil {
			own.AddFlag(Shown(f))
		} else {
			connection.AddFlag(Shown(f))
		}
	})
	writeFlags(&b, "Flags", own, width)
	writeFlags(&b, "Connection", connection, width)
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\n\"%s COMMAND --help\" says more about a command.\n", cmd.CommandPath())
	}
	return b.String()
}

func writeFlags(b *strings.Builder, title string, flags *pflag.FlagSet, width int) {
	if flags.HasAvailableFlags() {
		b.WriteString("\n" + title + ":\n" + flags.FlagUsagesWrapped(width))
	}
}

// writeCommands writes the commands below cmd, by group.
func writeCommands(b *strings.Builder, cmd *cobra.Command, width int) {
	groups := cmd.Groups()
	if len(groups) == 0 {
		groups = []*cobra.Group{{Title: "Commands"}}
	}
	for _, g := range groups {
		title := "\n" + g.Title + ":\n"
		for _, below := range cmd.Commands() {
			if GroupOf(below) != g.ID || !below.IsAvailableCommand() && below.Name() != "help" {
				continue
			}
			indent := below.NamePadding() + 3
			fmt.Fprintf(b, "%s  %-*s %s\n", title, below.NamePadding(), below.Name(),
				strings.Join(wrap.Lines(below.Short, width-indent), "\n"+strings.Repeat(" ", indent)))
			title = ""
		}
	}
}

// GroupOf returns the group in which the help of a command's parent lists it.
func GroupOf(cmd *cobra.Command) string {
	if cmd.GroupID == "" && cmd.HasParent() && len(cmd.Parent().Groups()) > 0 {
		return Other
	}
	return cmd.GroupID
}

// NewHelp returns the command "help", which fails for a command that does not exist.
func NewHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Print what a command does and its flags",
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err == nil && len(rest) > 0 {
				err = NoSuchCommand(about, rest)
			}
			if err != nil {
				return err
			}
			about.InitDefaultHelpFlag() // it is part of the help
			return about.Help()
		},
	}
}

// NoSuchCommand is the argument check of commands that only have others below them.
func NoSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.SuggestionsMinimumDistance <= 0 {
		cmd.SuggestionsMinimumDistance = 2 // the distance that cobra itself uses
	}
	return Usagef("unknown command %q%s; see %s --help", args[0], suggest.Hint(cmd.SuggestionsFor(args[0])),
		cmd.CommandPath())
}
