// Command tidemark runs the Tidemark service, and is its command line client.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/tidemark-dev/tidemark/client"
)

// What the program's exit status means.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
)

// terminal is what a command reads from and writes to.
type terminal struct {
	stdin   io.Reader
	stdout  io.Writer
	stderr  io.Writer
	environ []string // KEY=value, as os.Environ gives it
}

// getenv gives the value of an environment variable, or "".
func (t terminal) getenv(name string) string {
	value := ""
	for _, variable := range t.environ {
		if v, ok := strings.CutPrefix(variable, name+"="); ok {
			value = v
		}
	}
	return value
}

// tell writes a line to standard error. Where that can't be written there is nobody to tell.
func (t terminal) tell(format string, args ...any) {
	_, _ = fmt.Fprintf(t.stderr, "tidemark: "+format+"\n", args...)
}

func main() { os.Exit(realMain()) }

func realMain() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal then ends the process at once
	t := terminal{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, environ: os.Environ()}
	return run(ctx, t, os.Args[1:])
}

// run runs one command and gives the program's exit status. What went wrong is one line on standard error.
func run(ctx context.Context, t terminal, args []string) int {
	root := newRoot(t)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	text := strings.Join(strings.Fields(err.Error()), " ")
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		text = "interrupted"
	}
	t.tell("%s%s", text, notAService(err))
	var usage *usageError
	if errors.As(err, &usage) {
		return exitUsage
	}
	return exitFailure
}

// notAService returns a hint for an answer that suggests that --server names something else than a Tidemark service.
func notAService(err error) string {
	var answered *client.Error
	switch {
	case !errors.As(err, &answered) || answered.Slug() != "" && !errors.Is(err, client.ErrNoMatchmaking):
		return ""
	case answered.Slug() == "":
		return "; is --server the URL of a Tidemark service?"
	}
	return "; is --server the URL of a Tidemark service, and its matchmaking on?"
}

// usageError is an error in how the program was called or configured.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error {
	return &usageError{fmt.Errorf(format, args...)}
}
