package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Confirmation is the question that a command asks on a terminal before it changes something for others.
type Confirmation struct {
	terminal Terminal
	yes      bool
}

// AddConfirmation adds --yes to a command.
func AddConfirmation(cmd *cobra.Command, t Terminal) *Confirmation {
	c := &Confirmation{terminal: t}
	cmd.Flags().BoolVarP(&c.yes, "yes", "y", false, "don't ask; needed if standard input isn't a terminal")
	return c
}

var errDeclined = errors.New("nothing was changed")

// Ask asks a question, unless --yes was given. It returns an error unless the answer is yes.
func (c *Confirmation) Ask(ctx context.Context, format string, args ...any) error {
	if c.yes {
		return nil
	}
	if !IsTerminal(c.terminal.Stdin) {
		return Usagef("standard input isn't a terminal, so there is nobody to ask: confirm with --yes")
	}
	if _, err := fmt.Fprintf(c.terminal.Stderr, "%s [y/N] ", Printable(fmt.Sprintf(format, args...))); err != nil {
		return err
	}
	answer := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(c.terminal.Stdin).ReadString('\n') // without an answer nothing is changed
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case text := <-answer:
		if text == "y" || text == "yes" {
			return nil
		}
		return errDeclined
	}
}
