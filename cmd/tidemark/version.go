package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/tidemark-dev/tidemark/internal/program/cli"
)

// The linker sets these in `make build` and in releases; otherwise they come from the build information, if it has them.
var (
	version = ""
	commit  = ""
	date    = "" // of the commit, as RFC 3339
)

// build identifies this build of the program.
type build struct{ version, commit, date string }

const unknown = "unknown"

func thisBuild() build {
	b := build{version: version, commit: commit, date: date}
	info, ok := debug.ReadBuildInfo()
	if ok {
		b.version = cmp.Or(b.version, info.Main.Version)
		modified := ""
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				b.commit = s.Value
			case s.Key == "vcs.time":
				b.date = s.Value
			case s.Key == "vcs.modified" && s.Value == "true":
				modified = ", modified"
			}
		}
		b.commit = cmp.Or(b.commit, unknown) + modified
	}
	if b.version == "" || b.version == "(devel)" {
		b.version = "devel"
	}
	b.commit, b.date = cmp.Or(b.commit, unknown), cmp.Or(b.date, unknown)
	return b
}

// registerBuild registers the metric that identifies this build.
func registerBuild(r prometheus.Registerer) {
	b := thisBuild()
	r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "tidemark_build_info", Help: "1, with the version, the commit and the Go version of the program.",
		ConstLabels: prometheus.Labels{"version": b.version, "commit": b.commit, "go": runtime.Version()},
	}, func() float64 { return 1 }))
}

func newVersion(t cli.Terminal) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cli.Arguments(0, 0),
		RunE:  func(*cobra.Command, []string) error { return writeVersion(t, asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a line of JSON: version, commit, date, go, os and arch")
	return cmd
}

// addVersionFlag makes root print the version with --version, and its help without. Cobra's own flag can print this text
// only by a template, and text/template calls methods by name: the linker would have to keep all of them.
func addVersionFlag(root *cobra.Command, t cli.Terminal) {
	show := root.Flags().BoolP("version", "v", false, "version for "+root.Name())
	root.Args = func(cmd *cobra.Command, args []string) error {
		if *show {
			return nil
		}
		return cli.NoSuchCommand(cmd, args)
	}
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		if *show {
			return writeVersion(t, false)
		}
		return cmd.Help()
	}
}

// versionForm is the output of version --json.
type versionForm struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Date    string `json:"date"`
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}

func writeVersion(t cli.Terminal, asJSON bool) error {
	b := thisBuild()
	form := versionForm{b.version, b.commit, b.date, runtime.Version(), runtime.GOOS, runtime.GOARCH}
	if asJSON {
		return cli.WriteLine(t.Stdout, form)
	}
	_, err := fmt.Fprintf(t.Stdout, "tidemark %s\ncommit   %s\ndate     %s\ngo       %s %s/%s\n",
		form.Version, form.Commit, form.Date, form.Go, form.OS, form.Arch)
	return err
}
