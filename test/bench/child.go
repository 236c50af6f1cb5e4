package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
)

// child is a process of this program that reads commands as lines, and answers with lines.
type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// startChild starts this program with an argument.
func startChild(ctx context.Context, flag, value string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.CommandContext(ctx, self, flag, value)} //nolint:gosec // this program
	c.cmd.Stderr = os.Stderr
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = bufio.NewReader(out)
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	return c, c.cmd.Start()
}

// end closes the child's standard input, and waits until it has ended.
func (c *child) end() error { return errors.Join(c.in.Close(), c.cmd.Wait()) }
