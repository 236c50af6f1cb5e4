package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/term"
)

// Terminal holds the input and outputs of a command, and its program.
type Terminal struct {
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer
	Environ []string // KEY=value, as os.Environ returns it
	Version string   // of the program, which its clients name to the service
}

// Getenv returns the value of an environment variable, or "".
func (t Terminal) Getenv(name string) string {
	value := ""
	for _, variable := range t.Environ {
		if v, ok := strings.CutPrefix(variable, name+"="); ok {
			value = v
		}
	}
	return value
}

// Width returns the width of standard output if that is a terminal, or 0.
func (t Terminal) Width() int {
	if !IsTerminal(t.Stdout) {
		return 0
	}
	width, _, err := term.GetSize(int(t.Stdout.(*os.File).Fd()))
	if err != nil {
		return 0
	}
	return width
}

// IsTerminal reports whether an input or output is a terminal.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Report writes a line to standard error. An error of that write is ignored: it can't be reported.
func (t Terminal) Report(format string, args ...any) {
	_, _ = fmt.Fprintf(t.Stderr, "tidemark: %s\n", Printable(fmt.Sprintf(format, args...)))
}

// Printable returns text with control characters, characters that change the direction of text, and other ones that
// aren't printed, replaced by escapes such as \x1b and \u202e. Text of others can then not change what a terminal shows.
func Printable(text string) string { return escape(text, "") }

// PrintableLines is Printable for text of several lines: line ends and tabs stay.
func PrintableLines(text string) string { return escape(text, "\n\t") }

// escape escapes the characters that can't be printed, except some.
func escape(text, except string) string {
	var b strings.Builder
	for _, r := range text { // U+FFFD for bytes that aren't UTF-8
		if unicode.IsPrint(r) || strings.ContainsRune(except, r) {
			b.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRune(r)
		b.WriteString(quoted[1 : len(quoted)-1])
	}
	return b.String()
}

// ReadInput reads standard input to its end, but returns the error of ctx when that ends before. If it is a terminal,
// standard error says what is read.
func (t Terminal) ReadInput(ctx context.Context, what string) ([]byte, error) {
	t.ReportInput(what)
	text, err := ReadAll(ctx, t.Stdin)
	return TrimBOM(text), err
}

// ReportInput says what is read from standard input if that is a terminal, where the command seems to hang otherwise.
func (t Terminal) ReportInput(what string) {
	if IsTerminal(t.Stdin) {
		t.Report("reading %s from standard input; Ctrl-D ends it", what)
	}
}

// ReadAll reads r to its end, but returns the error of ctx when that ends before.
func ReadAll(ctx context.Context, r io.Reader) ([]byte, error) {
	type result struct {
		data []byte
		err  error
	}
	done := make(chan result, 1)
	go func() {
		data, err := io.ReadAll(r)
		done <- result{data, err}
	}()
	select {
	case r := <-done:
		return r.data, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
