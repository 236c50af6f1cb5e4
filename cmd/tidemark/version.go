package main

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/tidemark-dev/tidemark/internal/cli"
)

// The linker sets these in `make build`; otherwise they come from the build information, if it has them.
var (
	version = ""
	commit  = ""
)

// build identifies this build of the program.
type build struct{ version, commit string }

func thisBuild() build {
	b := build{version: version, commit: cmp.Or(commit, "unknown")}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if b.version == "" {
		b.version = info.Main.Version
	}
	modified := ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			b.commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = ", modified"
		}
	}
	b.commit += modified
	if b.version == "" || b.version == "(devel)" {
		b.version = "devel"
	}
	return b
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cli.Arguments(0, 0),
		RunE:  func(cmd *cobra.Command, _ []string) error { return writeVersion(cmd) },
	}
}

// addVersionFlag makes root print the version with --version, and its help without. Cobra's own flag can print this text
// only by a template, and text/template calls methods by name: the linker would have to keep all of them.
func addVersionFlag(root *cobra.Command) {
	show := root.Flags().BoolP("version", "v", false, "version for "+root.Name())
	root.Args = func(cmd *cobra.Command, args []string) error {
		if *show {
			return nil
		}
		return cli.NoSuchCommand(cmd, args)
	}
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		if *show {
			return writeVersion(cmd)
		}
		return cmd.Help()
	}
}

func writeVersion(cmd *cobra.Command) error {
	_, err := io.WriteString(cmd.OutOrStdout(), versionText())
	return err
}

// versionText returns the output of `tidemark version` and `tidemark --version`.
func versionText() string {
	b := thisBuild()
	return fmt.Sprintf("tidemark %s\ncommit   %s\ngo       %s %s/%s\n",
		b.version, b.commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
