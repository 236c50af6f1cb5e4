package cli

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/tidemark-dev/tidemark/client"
)

// JSONFlag is the flag that all commands with a result have.
const JSONFlag = "json"

// OnlyJSON adds --json to a command that prints JSON without it, too: what the HTTP API calls form.
func OnlyJSON(cmd *cobra.Command, form string) {
	cmd.Flags().BoolFunc(JSONFlag, "print JSON, as without this flag: "+form, func(text string) error {
		if on, err := strconv.ParseBool(text); err != nil || !on {
			return errors.New("the command prints JSON only")
		}
		return nil
	})
}

// HandleQuietly is Handle for a command that prints nothing when it succeeds. With --json it prints what do returns,
// which form describes: what was changed.
func (c *Connection) HandleQuietly(form string, do func(ctx context.Context, service *client.Client, args []string) (any, error)) {
	asJSON := c.cmd.Flags().Bool(JSONFlag, false, "print what was changed as a line of JSON: "+form)
	c.Handle(func(ctx context.Context, service *client.Client, args []string) error {
		changed, err := do(ctx, service, args)
		if err != nil || !*asJSON {
			return err
		}
		return WriteLine(c.terminal.Stdout, changed)
	})
}

// WriteLine writes value as one line of JSON, in one write.
func WriteLine(w io.Writer, value any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(value)
}
