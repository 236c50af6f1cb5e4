package cli

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/program/config"
)

// Limits of a completion, for which a shell waits.
const (
	completionTime = time.Second
	mostNames      = 200
)

// Names returns names that begin with a prefix.
type Names func(ctx context.Context, prefix string) ([]string, error)

// CompleteArguments makes shells complete the first n arguments of a command by names. If the names can't be read,
// there are no completions, and no error.
func CompleteArguments(cmd *cobra.Command, n int, names Names) {
	complete := completion(names)
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= n {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return complete(cmd, args, prefix)
	}
}

// CompleteFlag makes shells complete the value of a flag in the same way.
func CompleteFlag(cmd *cobra.Command, flag string, names Names) {
	if err := cmd.RegisterFlagCompletionFunc(flag, completion(names)); err != nil {
		panic(err) // the command has no such flag
	}
}

func completion(names Names) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
		defer cancel()
		found, err := names(ctx, prefix)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		found = slices.DeleteFunc(found, func(name string) bool {
			return !strings.HasPrefix(name, prefix) || slices.Contains(args, name) || Printable(name) != name
		})
		slices.Sort(found)
		found = slices.Compact(found)
		return found[:min(len(found), mostNames)], cobra.ShellCompDirectiveNoFileComp
	}
}

// quietly returns a client that reports nothing and doesn't try again.
func (c *Connection) quietly() (*client.Client, error) {
	quiet := *c
	quiet.retry, quiet.terminal.Stderr = 0, io.Discard
	return quiet.Open()
}

// Queues returns the names of queues.
func (c *Connection) Queues(ctx context.Context, _ string) (names []string, err error) {
	service, err := c.quietly()
	if err != nil {
		return nil, err
	}
	defer service.Close()
	queues, err := service.Queues(ctx)
	for _, q := range queues {
		names = append(names, q.Name)
	}
	return names, err
}

// Channels returns the names of channels, which only the service's admin address lists.
func (c *Connection) Channels(ctx context.Context, prefix string) (names []string, err error) {
	admin := *c
	if c.flag != AdminFlag {
		admin.flag, admin.server = AdminFlag, c.terminal.Getenv(config.AdminVariable)
		if c.cmd.Flags().Changed(c.flag) || admin.server == "" && c.server != defaultServer {
			return nil, nil // its admin address isn't known
		}
		if admin.server == "" {
			admin.server = defaultAdmin
		}
	}
	service, err := admin.quietly()
	if err != nil {
		return nil, err
	}
	defer service.Close()
	for listed, err := range service.Channels(ctx, prefix) {
		if err != nil || len(names) == mostNames {
			break // with those that were found in time
		}
		names = append(names, listed.Channel)
	}
	return names, nil
}
