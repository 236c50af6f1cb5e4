package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
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

// Report writes a line to standard error. An error of that write is ignored: it can't be reported.
func (t Terminal) Report(format string, args ...any) {
	_, _ = fmt.Fprintf(t.Stderr, "tidemark: "+format+"\n", args...)
}

// WriteLine writes value as one line of JSON, in one write.
func WriteLine(w io.Writer, value any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(value)
}

// WriteTable writes rows, whose cells are separated by tabs, with aligned columns.
func WriteTable(w io.Writer, rows string) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if _, err := io.WriteString(table, rows); err != nil {
		return err
	}
	return table.Flush()
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
