// Command tidemark runs the Tidemark service, and is its command line client.
//
// The client commands are in package internal/program/commands, their common parts in internal/program/cli, and the
// options of serve in internal/program/config. This package composes the service: service.go starts its parts,
// stores.go selects and opens the stores.
package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/program/cli"
	"github.com/tidemark-dev/tidemark/internal/program/commands"
	"github.com/tidemark-dev/tidemark/internal/program/config"
)

// The program's exit statuses.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
	exitSignal  = 128 // and the signal's number
)

func main() { os.Exit(realMain()) }

func realMain() int {
	if signal.Ignored(os.Interrupt) { // by a shell that has started it in the background, for example
		exitOnSecondSignal()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal then ends the process at once, unless it is ignored
	t := cli.Terminal{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Environ: os.Environ(),
		Version: thisBuild().version}
	return run(ctx, t, os.Args[1:])
}

// exitOnSecondSignal makes the second SIGINT or SIGTERM end the process.
func exitOnSecondSignal() {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		if second, ok := (<-signals).(syscall.Signal); ok {
			os.Exit(exitSignal + int(second))
		}
	}()
}

// run runs one command and returns the program's exit status. An error is reported in one line on standard error.
func run(ctx context.Context, t cli.Terminal, args []string) int {
	root := newRoot(t)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	return report(ctx, t, cmd, err)
}

// report reports the error of a command on standard error, unless the command has done so, and returns its exit status.
func report(ctx context.Context, t cli.Terminal, cmd *cobra.Command, err error) int {
	var exit *cli.ExitError
	if errors.As(err, &exit) && exit.Status > 0 {
		return exit.Status
	}
	var usage *cli.UsageError
	var faults config.Faults
	if errors.As(err, &usage) && errors.As(err, &faults) {
		for _, text := range faults {
			t.Report("%s", text)
		}
		return exitUsage
	}
	text := strings.Join(strings.Fields(err.Error()), " ")
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		text = "interrupted"
	}
	t.Report("%s%s", text, hint(cmd, err))
	if errors.As(err, &usage) {
		return exitUsage
	}
	return exitFailure
}

// addManuals adds the command that writes man pages, if this program was built with the tag manuals.
var addManuals = func(*cobra.Command) {}

func newRoot(t cli.Terminal) *cobra.Command {
	root := &cobra.Command{
		Use:   "tidemark",
		Short: "Durable publish/subscribe channels over HTTP, kept in Redis",
		Long: `Durable publish/subscribe channels over HTTP, kept in Redis.

"tidemark serve" runs the service. "tidemark shards serve" runs a node that holds a shard of a cache in memory. "tidemark
doctor", "tidemark shards" and "tidemark redis-keys" connect to Redis. Most other commands are clients of a service.

The exit status is 0, 1 if a command has failed, and 2 if it was called wrongly. All commands with a result have
--json; "tidemark api" prints what the HTTP API answers. docs/cli.md describes both, and the variables.`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	addVersionFlag(root, t)
	root.SetHelpCommand(cli.NewHelp())
	root.SetIn(t.Stdin)
	root.SetOut(t.Stdout)
	root.SetErr(t.Stderr)
	root.SetFlagErrorFunc(cli.FlagError)
	cli.AddGroups(root)
	cli.SetHelp(root, t)
	root.AddCommand(cli.In(cli.Everyday, newServe(t), newDoctor(t))...)
	root.AddCommand(cli.In(cli.Service, newHealth(t), newRedisKeys(t), newSize(t))...)
	root.AddCommand(cli.In(cli.Shards, newShards(t))...)
	root.AddCommand(cli.In(cli.Other, newVersion(t))...)
	root.AddCommand(commands.Clients(t)...)
	addManuals(root)
	cli.NamePlaceholders(root)
	return root
}

// hint returns the probable cause of an error with which a service answered: that a flag names something else than a
// Tidemark service, or its admin address, or that the command has no credentials.
func hint(cmd *cobra.Command, err error) string {
	flag, whose := "--server", "a Tidemark service"
	if admin := cmd.Flags().Lookup(cli.AdminFlag); admin != nil && (admin.Changed || cmd.Flags().Lookup(flag[2:]) == nil) {
		flag, whose = "--admin", "a Tidemark service's admin address"
	}
	var answered *client.Error
	switch {
	case errors.Is(err, client.ErrNoCredential):
		return "; name a file with an API key or a token with --token-file, or set " + config.TokenVariable
	case !errors.As(err, &answered) || answered.Slug() != "" && !errors.Is(err, client.ErrNoMatchmaking):
		return ""
	case answered.Slug() != "" && cmd.Name() == "api":
		return "; GET /v1/openapi.yaml has the paths, and says which of them need --admin"
	case answered.Slug() == "" || flag == "--admin":
		return "; is " + flag + " the URL of " + whose + "?"
	}
	return "; is --server the URL of a Tidemark service, and its matchmaking on?"
}
