package commands

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/client/records"
	"github.com/tidemark-dev/tidemark/internal/program/cli"
)

func newVerify(t cli.Terminal) *cobra.Command {
	const types = "TYPE is email_verification, phone_verification, password_reset or email_change."
	var data string
	issue := &cobra.Command{
		Use:   "issue USER TYPE",
		Short: "Issue a verification token and print it",
		Long: `Issue a verification token, and print it and when it ends as JSON. It is valid for an hour, and ends the
earlier one of the user and type.
` + types,
		Args: cli.Arguments(2, 2),
	}
	connection := cli.AddConnection(issue, t, patience)
	cli.OnlyJSON(issue, "IssuedVerification")
	issue.Flags().StringVar(&data, "data", "", "`JSON` what the take prints")
	connection.Handle(func(ctx context.Context, c *client.Client, args []string) error {
		if data != "" && !json.Valid([]byte(data)) {
			return cli.Usagef("--data isn't JSON")
		}
		issued, err := records.New(c).IssueVerification(ctx, args[0], records.VerificationType(args[1]),
			json.RawMessage(data))
		return writeUnless(err, t, issued)
	})
	take := &cobra.Command{
		Use:   "take TYPE",
		Short: "Take a verification token from standard input, once",
		Long: `Take a verification token, which is read from standard input, and print its user and data as JSON. It
works once.
` + types,
		Args: cli.Arguments(1, 1),
	}
	cli.OnlyJSON(take, "Verification")
	cli.AddConnection(take, t, patience).Handle(func(ctx context.Context, c *client.Client, args []string) error {
		token, err := readSecret(ctx, t)
		if err != nil {
			return err
		}
		v, err := records.New(c).TakeVerification(ctx, records.VerificationType(args[0]), token)
		return writeUnless(err, t, v)
	})
	return cli.NewGroup("verify", "Issue and take verification tokens", issue, take)
}

// readSecret reads a secret from standard input: others can see arguments.
func readSecret(ctx context.Context, t cli.Terminal) (string, error) {
	text, err := t.ReadInput(ctx, "the token")
	return strings.TrimSpace(string(text)), err
}

// writeUnless prints a value as JSON, unless there was an error.
func writeUnless(err error, t cli.Terminal, value any) error {
	if err != nil {
		return err
	}
	return cli.WriteLine(t.Stdout, value)
}

func newOAuth(t cli.Terminal) *cobra.Command {
	remove := &cobra.Command{Use: "delete USER PROVIDER", Short: "Delete the tokens of a provider for a user",
		Args: cli.Arguments(2, 2)}
	cli.AddConnection(remove, t, patience).HandleQuietly("user and provider", func(ctx context.Context, c *client.Client, args []string) (any,
		error) {
		return map[string]string{"user": args[0], "provider": args[1]},
			records.New(c).DeleteOAuthTokens(ctx, args[0], args[1])
	})
	takeState := &cobra.Command{Use: "take-state", Short: "Take the state of a login from standard input, once",
		Args: cli.Arguments(0, 0)}
	cli.OnlyJSON(takeState, "OAuthState")
	cli.AddConnection(takeState, t, patience).Handle(func(ctx context.Context, c *client.Client, _ []string) error {
		text, err := readSecret(ctx, t)
		if err != nil {
			return err
		}
		found, err := records.New(c).TakeOAuthState(ctx, text)
		return writeUnless(err, t, found)
	})
	return cli.NewGroup("oauth", "Store the tokens of OAuth providers, and the states of logins", newOAuthPut(t),
		newOAuthShow(t), remove, newOAuthState(t), takeState, newKeyset(t),
		cli.Renamed("get", "oauth show", newOAuthShow(t)))
}

func newOAuthShow(t cli.Terminal) *cobra.Command {
	cmd := &cobra.Command{Use: "show USER PROVIDER", Short: "Print the tokens of a provider for a user",
		Args: cli.Arguments(2, 2)}
	cli.OnlyJSON(cmd, "StoredOAuthTokens")
	cli.AddConnection(cmd, t, patience).Handle(func(ctx context.Context, c *client.Client, args []string) error {
		found, err := records.New(c).OAuthTokens(ctx, args[0], args[1])
		return writeUnless(err, t, found)
	})
	return cmd
}

func newOAuthPut(t cli.Terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "put USER PROVIDER",
		Short: "Store the tokens of a provider for a user, from standard input",
		Long: `Store the tokens of a provider for a user. They are read from standard input as JSON: {"accessToken":
"…", "refreshToken": "…"}, or one of them.`,
		Args: cli.Arguments(2, 2),
	}
	cli.OnlyJSON(cmd, "OAuthExpiry")
	cli.AddConnection(cmd, t, patience).Handle(func(ctx context.Context, c *client.Client, args []string) error {
		text, err := t.ReadInput(ctx, "the tokens")
		if err != nil {
			return err
		}
		var tokens records.OAuthTokens
		if err := json.Unmarshal(text, &tokens); err != nil {
			return cli.Usagef("standard input isn't JSON with tokens: %w", err)
		}
		ends, err := records.New(c).PutOAuthTokens(ctx, args[0], args[1], tokens)
		return writeUnless(err, t, ends)
	})
	return cmd
}

func newOAuthState(t cli.Terminal) *cobra.Command {
	var n records.NewOAuthState
	cmd := &cobra.Command{Use: "state PROVIDER", Short: "Store the state of a login and print it",
		Args: cli.Arguments(1, 1)}
	connection := cli.AddConnection(cmd, t, patience)
	cli.OnlyJSON(cmd, "IssuedOAuthState")
	cmd.Flags().StringVar(&n.RedirectURI, "redirect-uri", "", "`URL` where the user goes after the login")
	cmd.Flags().StringVar(&n.CSRFToken, "csrf-token", "", "`TEXT` what the user's browser must have, too")
	connection.Handle(func(ctx context.Context, c *client.Client, args []string) error {
		n.Provider = args[0]
		issued, err := records.New(c).CreateOAuthState(ctx, n)
		return writeUnless(err, t, issued)
	})
	return cmd
}
