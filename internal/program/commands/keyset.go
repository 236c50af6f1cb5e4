package commands

import (
	"github.com/spf13/cobra"

	"github.com/tidemark-dev/tidemark/internal/program/cli"
	"github.com/tidemark-dev/tidemark/internal/records/keyset"
)

func newOAuth(t cli.Terminal) *cobra.Command {
	return cli.NewGroup("oauth", "Create and rotate the keys that encrypt OAuth tokens", newKeyset(t))
}

func newKeyset(t cli.Terminal) *cobra.Command {
	return cli.NewGroup("keyset", "Create and rotate the keys that encrypt OAuth tokens", newKeysetCreate(t),
		newKeysetRotate(t))
}

// changedKeyset is the output of a command that changes a file with keys.
type changedKeyset struct {
	File   string `json:"file"`
	Staged bool   `json:"staged"` // the new key isn't used yet
}

func newKeysetCreate(t cli.Terminal) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "create FILE",
		Short: "Create a keyset with one key",
		Long: `Create FILE with a keyset of one key, which only its owner may read. No file is replaced.

"tidemark serve --keyset FILE" encrypts the tokens of OAuth providers with it. Keep a copy: without its key, what it
encrypted can't be read any more.`,
		Args: cli.Arguments(1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := keyset.Create(args[0]); err != nil || !asJSON {
				return err
			}
			return cli.WriteLine(t.Stdout, changedKeyset{File: args[0]})
		},
	}
	cmd.Flags().BoolVar(&asJSON, cli.JSONFlag, false, "print a line of JSON: file, and whether the new key is only staged")
	return cmd
}

func newKeysetRotate(t cli.Terminal) *cobra.Command {
	var stage, asJSON bool
	cmd := &cobra.Command{
		Use:   "rotate FILE",
		Short: "Use a new key in a keyset",
		Long: `Add a key to the keyset in FILE, and encrypt with that key from now on. Values that other keys encrypted
can still be read.

A server reads the file when it starts. With more than one server, first add the key with --stage and start all servers
with that file; then use it with "rotate", and start them again. So no server reads a value whose key it doesn't have.`,
		Example: `  tidemark oauth keyset rotate --stage oauth.keyset    # and start all servers again
  tidemark oauth keyset rotate oauth.keyset            # uses the staged key`,
		Args: cli.Arguments(1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			change := keyset.Rotate
			if stage {
				change = keyset.Stage
			}
			if err := change(args[0]); err != nil || !asJSON {
				return err
			}
			return cli.WriteLine(t.Stdout, changedKeyset{File: args[0], Staged: stage})
		},
	}
	cmd.Flags().BoolVar(&stage, "stage", false, "add a key that isn't used until the next rotate")
	cmd.Flags().BoolVar(&asJSON, cli.JSONFlag, false, "print a line of JSON: file, and whether the new key is only staged")
	return cmd
}
