package commands

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/program/cli"
)

func newServers(t cli.Terminal) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:        "servers",
		SuggestFor: []string{"nodes", "members"},
		Short:      "List the servers on the Redis of a service",
		Long: `List the servers on the Redis of a service: the one that answers first. Servers announce themselves about every 10
seconds; one that was killed is listed for 30 seconds.`,
		Args: cli.Arguments(0, 0),
	}
	connection := cli.AddAdministration(cmd, t, 5*time.Second)
	cmd.Flags().BoolVar(&asJSON, cli.JSONFlag, false, "print a line of JSON for each server: PeerServer")
	connection.Handle(func(ctx context.Context, c *client.Client, _ []string) error {
		found, err := c.Servers(ctx)
		if err != nil {
			return err
		}
		rows := "HOST\tPID\tVERSION\tLISTENS\tRUNS FOR\tSEEN\tLEASES\n"
		for _, s := range found {
			if asJSON {
				if err := cli.WriteLine(t.Stdout, s); err != nil {
					return err
				}
				continue
			}
			leases := strings.Join(s.Leases, " ")
			if s.MoreLeases > 0 {
				leases += fmt.Sprintf(" and %d more", s.MoreLeases)
			}
			rows += fmt.Sprintf("%s\t%d\t%s\t%s\t%s\t%s ago\t%s\n", s.Host, s.PID, s.Version, strings.Join(s.Listen, " "),
				ago(s.StartedAt), ago(s.SeenAt), leases)
		}
		if asJSON {
			return nil
		}
		return cli.WriteTable(t.Stdout, rows)
	})
	return cmd
}

func ago(at time.Time) time.Duration { return max(0, time.Since(at)).Round(time.Second) }

func newProblems(t cli.Terminal) *cobra.Command {
	var asJSON, check bool
	cmd := &cobra.Command{
		Use:        "problems",
		SuggestFor: []string{"alerts", "issues", "status"},
		Short:      "List what is wrong with a running service, and where to read what to do",
		Long: `List what is wrong now, as far as the server that answers knows: its own failures, Redis, queues and shards. Critical
problems are the first. "tidemark doctor" checks Redis and this machine without a service.

With --check it exits with status 1 if there is a critical problem.`,
		Args: cli.Arguments(0, 0),
	}
	connection := cli.AddAdministration(cmd, t, 5*time.Second)
	cmd.Flags().BoolVar(&asJSON, cli.JSONFlag, false, "print a line of JSON for each problem: FoundProblem")
	cmd.Flags().BoolVar(&check, "check", false, "exit with status 1 if there is a critical problem")
	connection.Handle(func(ctx context.Context, c *client.Client, _ []string) error {
		found, err := c.Problems(ctx)
		if err != nil {
			return err
		}
		if err := writeProblems(t, found, asJSON); err != nil {
			return err
		}
		if check && slices.ContainsFunc(found, func(p client.FoundProblem) bool {
			return p.Severity == client.SeverityCritical
		}) {
			return &cli.ExitError{Status: 1, Err: errors.New("there is a critical problem")}
		}
		return nil
	})
	return cmd
}

func writeProblems(t cli.Terminal, found []client.FoundProblem, asJSON bool) error {
	rows := ""
	for _, p := range found {
		if asJSON {
			if err := cli.WriteLine(t.Stdout, p); err != nil {
				return err
			}
			continue
		}
		rows += fmt.Sprintf("%s\tfor %s\t%s\n\t\t-> %s\n", p.Severity, ago(p.Since), p.Text, p.Docs)
	}
	switch {
	case asJSON:
		return nil
	case rows == "":
		_, err := fmt.Fprintln(t.Stdout, "no problems are known")
		return err
	}
	return cli.WriteTable(t.Stdout, rows)
}
