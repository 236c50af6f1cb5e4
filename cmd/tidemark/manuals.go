//go:build manuals

package main

import (
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"github.com/tidemark-dev/tidemark/internal/program/cli"
	"github.com/tidemark-dev/tidemark/internal/program/config"
)

// manualWidth is the width of the lines of help.
const manualWidth = 100

// The command "manuals" writes the man pages of a release. Only a program with the tag manuals has it: package doc uses
// text/template, for which the linker keeps the methods of all types.
func init() {
	addManuals = func(root *cobra.Command) {
		root.AddCommand(&cobra.Command{
			Use:    "manuals DIRECTORY",
			Short:  "Write the man pages of all commands",
			Args:   cli.Arguments(1, 1),
			Hidden: true,
			RunE:   func(_ *cobra.Command, args []string) error { return writeManuals(root, args[0]) },
		})
	}
}

func writeManuals(root *cobra.Command, dir string) error {
	if date == "" {
		return errors.New("the date of the pages isn't known: link with -X main.date=...")
	}
	at, err := time.Parse(time.RFC3339, date)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // man pages are public
		return err
	}
	for words, help := range map[string]func(io.Writer, int) error{
		"serve": config.WriteHelp, "shard serve": config.WriteNodeHelp,
	} {
		if err := describe(root, strings.Fields(words), help); err != nil {
			return err
		}
	}
	root.DisableAutoGenTag = true
	return doc.GenManTree(root, &doc.GenManHeader{
		Section: "1", Date: &at, Source: strings.TrimSpace("Tidemark " + thisBuild().version), Manual: "Tidemark",
	}, dir)
}

// describe makes the page of a command contain its help, which also has the variables and defaults of all options.
func describe(root *cobra.Command, words []string, help func(io.Writer, int) error) error {
	cmd, _, err := root.Find(words)
	if err != nil {
		return err
	}
	var text strings.Builder
	if err := help(&text, manualWidth); err != nil {
		return err
	}
	cmd.Long = "    " + strings.ReplaceAll(text.String(), "\n", "\n    ")
	cmd.Flags().VisitAll(func(f *pflag.Flag) { f.Hidden = true })
	return nil
}
