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

// The linker sets these in `make build`; otherwise the build information says what it can.
var (
	version = ""
	commit  = ""
)

// build says which program this is.
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
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := io.WriteString(cmd.OutOrStdout(), versionText())
			return err
		},
	}
}

// versionText returns what `tidemark version` and `tidemark --version` print.
func versionText() string {
	b := thisBuild()
	return fmt.Sprintf("tidemark %s\ncommit   %s\ngo       %s %s/%s\n",
		b.version, b.commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
