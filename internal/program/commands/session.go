package commands

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/client/records"
	"github.com/tidemark-dev/tidemark/internal/program/cli"
)

func newSession(t cli.Terminal) *cobra.Command {
	return cli.NewGroup("session", "Create, list, check and revoke sessions of users",
		newSessionCreate(t), newSessionList(t), newSessionCheck(t), newSessionRevoke(t))
}

func newSessionCreate(t cli.Terminal) *cobra.Command {
	var n records.NewSession
	var device, auth string
	var asJSON bool
	cmd := &cobra.Command{
		Use:        "create USER",
		SuggestFor: []string{"add", "new", "make"},
		Short:      "Create a session for a user and print its token",
		Long: `Create a session for a user and print its token, alone, on standard output. It is printed only this once:
the service keeps its SHA-256.

If the user has reached the limit of sessions, the one that has been idle the longest ends.`,
		Example: `  tidemark session create ann --username Ann --device '{"agent":"Firefox"}' > ann.token`,
		Args:    cli.Arguments(1, 1),
	}
	connection := cli.AddConnection(cmd, t, 5*time.Second)
	cmd.Flags().StringVar(&n.Username, "username", "", "`NAME` the user's name (default: USER)")
	cmd.Flags().BoolVar(&asJSON, cli.JSONFlag, false, "print a line of JSON: IssuedSession")
	cmd.Flags().StringVar(&device, "device", "", "`JSON` description of the device")
	cmd.Flags().StringVar(&auth, "auth-data", "", "`JSON` data for back ends, which lists don't show")
	connection.Handle(func(ctx context.Context, c *client.Client, args []string) error {
		for flag, value := range map[string]*string{"--device": &device, "--auth-data": &auth} {
			if *value != "" && !json.Valid([]byte(*value)) {
				return cli.Usagef("%s isn't JSON", flag)
			}
		}
		n.Device, n.AuthData = json.RawMessage(device), json.RawMessage(auth)
		if n.Username == "" {
			n.Username = args[0]
		}
		issued, err := records.New(c).CreateSession(ctx, args[0], n)
		if err != nil {
			return err
		}
		t.Report("created a session of %s; its token is printed only this once", args[0])
		if asJSON {
			return cli.WriteLine(t.Stdout, issued)
		}
		_, err = fmt.Fprintln(t.Stdout, issued.Token)
		return err
	})
	return cmd
}

func newSessionList(t cli.Terminal) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list USER",
		Short: "Show the sessions of a user, without their tokens",
		Args:  cli.Arguments(1, 1),
	}
	connection := cli.AddConnection(cmd, t, 5*time.Second)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a line of JSON for each session, as in Sessions")
	connection.Handle(func(ctx context.Context, c *client.Client, args []string) error {
		all, err := records.New(c).Sessions(ctx, args[0])
		if err != nil {
			return err
		}
		rows := "SESSION\tCREATED\tLAST ACTIVITY\tUSERNAME\tDEVICE\n"
		for _, s := range all {
			if asJSON {
				if err := cli.WriteLine(t.Stdout, s); err != nil {
					return err
				}
				continue
			}
			at := func(when time.Time) string { return when.UTC().Format(time.RFC3339) }
			rows += fmt.Sprintf("%s\t%s\t%s\t%s\t%s\n", s.ID, at(s.Created), at(s.LastActivity), s.Username,
				strings.ReplaceAll(string(s.Device), "\t", " "))
		}
		if asJSON {
			return nil
		}
		return cli.WriteTable(t.Stdout, rows)
	})
	return cmd
}

// maxTokenBytes limits how much of a token is read: more than any token has.
const maxTokenBytes = 16 << 10

func newSessionCheck(t cli.Terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check a session, whose token is read from standard input",
		Long: `Check a session, whose token is read from standard input, and print it as JSON. Like every check, this
renews the session.

The exit status is 1 if no session has the token.`,
		Example: `  tidemark session check < ann.token`,
		Args:    cli.Arguments(0, 0),
	}
	connection := cli.AddConnection(cmd, t, 5*time.Second)
	cli.OnlyJSON(cmd, "Session")
	connection.Handle(func(ctx context.Context, c *client.Client, _ []string) error {
		t.ReportInput("the token")
		text, err := cli.ReadAll(ctx, io.LimitReader(t.Stdin, maxTokenBytes))
		if err != nil {
			return fmt.Errorf("read the token: %w", err)
		}
		token := strings.TrimSpace(string(text))
		if token == "" {
			return cli.Usagef("standard input has no token")
		}
		found, err := records.New(c).CheckSession(ctx, token)
		if err != nil {
			return err
		}
		return cli.WriteLine(t.Stdout, found)
	})
	return cmd
}

func newSessionRevoke(t cli.Terminal) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:        "revoke USER (SESSION | --all)",
		SuggestFor: []string{"delete", "remove"},
		Short:      "End a session of a user, or all of them",
		Long: `End a session of a user, or all of them. SESSION is its ID, which "tidemark session list" shows.

Within a second no server accepts the token any more, and requests that wait with it end.`,
		Args: cli.Arguments(1, 2),
	}
	connection := cli.AddConnection(cmd, t, 5*time.Second)
	cmd.Flags().BoolVar(&all, "all", false, "end all sessions of the user")
	connection.HandleQuietly("userId, and the id if it is one session", func(ctx context.Context, c *client.Client, args []string) (any, error) {
		switch {
		case all == (len(args) == 2):
			return nil, cli.Usagef("give either SESSION or --all")
		case all:
			return map[string]string{"userId": args[0]}, records.New(c).RevokeSessions(ctx, args[0])
		case strings.Contains(args[1], "_") || strings.Contains(args[1], "."):
			return nil, cli.Usagef(
				"SESSION is the ID of the session, which \"tidemark session list\" shows: a token must not be an argument")
		}
		return map[string]string{"userId": args[0], "id": args[1]},
			records.New(c).RevokeSession(ctx, args[0], args[1])
	})
	return cmd
}
