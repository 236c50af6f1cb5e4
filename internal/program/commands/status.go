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

// serviceStatus is the output of the command status as JSON.
type serviceStatus struct {
	Info     client.Info           `json:"info"`
	Servers  []client.PeerServer   `json:"servers"`
	Problems []client.FoundProblem `json:"problems"`
}

func newStatus(t cli.Terminal) *cobra.Command {
	var asJSON, check bool
	cmd := &cobra.Command{
		Use:        "status",
		SuggestFor: []string{"alerts", "info", "issues", "problems", "servers", "members"},
		Short:      "Show a service, its servers, and what is wrong with it",
		Long: `Show a service: its version and Redis, the servers on that Redis, and what is wrong now, as far as the server that
answers knows: its own failures, Redis, queues and shards. Critical problems come first, each with the page that says
what to do. Servers announce themselves about every 10 seconds; one that was killed is listed for 30 seconds.

With --check it exits with status 1 if there is a critical problem. "tidemark doctor" checks Redis and this machine
without a service, and "tidemark health" whether a server is ready.`,
		Example: `  tidemark status
  tidemark status --check --json`,
		Args: cli.Arguments(0, 0),
	}
	connection := cli.AddAdministration(cmd, t, 5*time.Second)
	cmd.Flags().BoolVar(&asJSON, cli.JSONFlag, false, "print a line of JSON: info, servers and problems")
	cmd.Flags().BoolVar(&check, "check", false, "exit with status 1 if there is a critical problem")
	connection.Handle(func(ctx context.Context, c *client.Client, _ []string) error {
		s, err := readStatus(ctx, c)
		if err != nil {
			return err
		}
		if asJSON {
			err = cli.WriteLine(t.Stdout, s)
		} else {
			err = s.write(t)
		}
		if err == nil && check && s.isCritical() {
			err = &cli.ExitError{Status: 1, Err: errors.New("there is a critical problem")}
		}
		return err
	})
	return cmd
}

func readStatus(ctx context.Context, c *client.Client) (s serviceStatus, err error) {
	if s.Problems, err = c.Problems(ctx); err != nil {
		return s, err
	}
	if s.Servers, err = c.Servers(ctx); err != nil {
		return s, err
	}
	s.Info, err = c.Info(ctx)
	return s, err
}

func (s *serviceStatus) isCritical() bool {
	return slices.ContainsFunc(s.Problems, func(p client.FoundProblem) bool {
		return p.Severity == client.SeverityCritical
	})
}

func (s *serviceStatus) write(t cli.Terminal) error {
	access := "checks no credentials"
	if s.Info.Access != "open" {
		access = "requires credentials"
	}
	storage := s.Info.Storage
	rows := cli.Row("version\t%s, %s\nredis\t%s %s, %s, durability %s\n", s.Info.Version, access, storage.Product,
		storage.Version, storage.Kind, storage.Durability.Level)
	if err := cli.WriteTable(t.Stdout, rows); err != nil {
		return err
	}
	if err := writeServers(t, s.Servers); err != nil {
		return err
	}
	return writeProblems(t, s.Problems)
}

func writeServers(t cli.Terminal, servers []client.PeerServer) error {
	rows := "HOST\tPID\tVERSION\tLISTENS\tRUNS FOR\tSEEN\tLEASES\n"
	for _, s := range servers {
		leases := strings.Join(s.Leases, " ")
		if s.Draining {
			leases = strings.TrimSpace("draining " + leases)
		}
		if s.MoreLeases > 0 {
			leases += fmt.Sprintf(" and %d more", s.MoreLeases)
		}
		rows += cli.Row("%s\t%d\t%s\t%s\t%s\t%s ago\t%s\n", s.Host, s.PID, s.Version, strings.Join(s.Listen, " "),
			ago(s.StartedAt), ago(s.SeenAt), leases)
	}
	if _, err := fmt.Fprintln(t.Stdout); err != nil {
		return err
	}
	return cli.WriteTable(t.Stdout, rows)
}

func ago(at time.Time) time.Duration { return max(0, time.Since(at)).Round(time.Second) }

func writeProblems(t cli.Terminal, problems []client.FoundProblem) error {
	rows := "SEVERITY\tFOR\tPROBLEM\n"
	for _, p := range problems {
		rows += cli.Row("%s\t%s\t%s\n\t\t-> %s\n", p.Severity, ago(p.Since), p.Text, p.Docs)
	}
	if len(problems) == 0 {
		_, err := fmt.Fprintln(t.Stdout, "\nno problems are known")
		return err
	}
	if _, err := fmt.Fprintln(t.Stdout); err != nil {
		return err
	}
	return cli.WriteTable(t.Stdout, rows)
}
