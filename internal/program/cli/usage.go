package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tidemark-dev/tidemark/internal/program/suggest"
)

// UsageError is an error in how the program was called or configured. The program exits with status 2 for it.
type UsageError struct{ Err error }

// Error returns the text of the underlying error.
func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the underlying error.
func (e *UsageError) Unwrap() error { return e.Err }

// ExitError is the failure of a command that the program has run. The program exits with its status, without a message.
type ExitError struct {
	Status int
	Err    error
}

// Error returns the text of the underlying error.
func (e *ExitError) Error() string { return e.Err.Error() }

// Unwrap returns the underlying error.
func (e *ExitError) Unwrap() error { return e.Err }

// Usagef returns a UsageError with a text.
func Usagef(format string, args ...any) error {
	return &UsageError{fmt.Errorf(format, args...)}
}

// Arguments checks the number of positional arguments.
func Arguments(least, maximum int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || len(args) > maximum {
			return Usagef("wrong number of arguments: the usage is %s; see %s --help", cmd.UseLine(), cmd.CommandPath())
		}
		return nil
	}
}

// NewGroup returns a command that only has others below it.
func NewGroup(name, short string, commands ...*cobra.Command) *cobra.Command {
	group := &cobra.Command{
		Use:   name,
		Short: short,
		Args:  NoSuchCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return Usagef("a command is missing; see %s --help", cmd.CommandPath())
		},
	}
	group.AddCommand(commands...)
	return group
}

// FlagError turns an error about a flag of cmd into a usage error, with a hint if the flag does not exist.
func FlagError(cmd *cobra.Command, err error) error {
	return Usagef("%w%s; see %s --help", err, unknownFlag(cmd, err), cmd.CommandPath())
}

// placeholder is the annotation of a flag with the name of its placeholder.
const placeholder = "placeholder"

// NamePlaceholders takes the names of placeholders out of the texts of flags, of cmd and of all commands below it. In
// the usage of a flag that begins with a name in back quotes, such as "`FILE` file with the key", that is the
// placeholder only; pflag would print it a second time.
func NamePlaceholders(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		quoted, is := strings.CutPrefix(f.Usage, "`")
		name, usage, whole := strings.Cut(quoted, "` ")
		if !is || !whole {
			return
		}
		f.Usage = usage
		if f.Annotations == nil {
			f.Annotations = make(map[string][]string)
		}
		f.Annotations[placeholder] = []string{name}
	})
	for _, below := range cmd.Commands() {
		NamePlaceholders(below)
	}
}

// Shown returns a flag as help shows it, with the name of its placeholder.
func Shown(f *pflag.Flag) *pflag.Flag {
	shown := *f
	name := f.Annotations[placeholder]
	if name == nil {
		return &shown
	}
	shown.Value = named{f.Value, name[0]}
	if f.DefValue == "0s" || f.DefValue == "[]" {
		shown.DefValue = "" // pflag knows these zeros of its own types only
	}
	return &shown
}

// named is a value with a name for its placeholder.
type named struct {
	pflag.Value

	name string
}

// Type implements pflag.Value.
func (n named) Type() string { return n.name }

func unknownFlag(cmd *cobra.Command, err error) string {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return ""
	}
	switch name := unknown.GetSpecifiedName(); {
	case name == "server" && cmd.Flags().Lookup("admin") != nil:
		return "; this command calls the admin address, --admin"
	case name == "admin" && cmd.Flags().Lookup("server") != nil:
		return "; this command calls the address for clients, --server"
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	meant := suggest.Near(unknown.GetSpecifiedName(), names)
	for i := range meant {
		meant[i] = "--" + meant[i]
	}
	return suggest.Hint(meant)
}
