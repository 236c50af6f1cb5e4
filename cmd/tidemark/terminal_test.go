package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/creack/pty"
	"github.com/rogpeppe/go-internal/testscript"
)

// terminal runs a command on a terminal, on which "hello" and the end of the input are typed:
//
//	terminal FILE COLUMNS COMMAND [ARG...]  FILE gets what the terminal shows
//
// The commands ttyin and ttyout of testscript lose the end of long outputs.
func terminal(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: terminal FILE COLUMNS COMMAND [ARG...]")
	}
	columns, err := strconv.ParseUint(args[1], 10, 16)
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), scriptLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[2], args[3:]...)
	cmd.Dir, cmd.Env = ts.MkAbs("."), environOf(ts)
	screen, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 50, Cols: uint16(columns)})
	ts.Check(err)
	defer screen.Close() //nolint:errcheck // all of it was read
	_, err = io.WriteString(screen, "hello\n\x04")
	ts.Check(err)
	var shown bytes.Buffer
	_, _ = io.Copy(&shown, screen) // it ends with an error when nothing has the terminal open any more
	ts.Check(cmd.Wait())
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(strings.ReplaceAll(shown.String(), "\r\n", "\n")), 0o600))
}
