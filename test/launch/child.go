package launch

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
)

// Child is another process of this program, which answers questions: lines of JSON. It is used by one goroutine.
type Child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *json.Decoder
}

// StartChild starts this program with arguments that make it call Answer. The child ends with ctx.
func StartChild(ctx context.Context, args ...string) (*Child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &Child{cmd: exec.CommandContext(ctx, self, args...)} //nolint:gosec // this program
	c.cmd.Stderr = os.Stderr
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = json.NewDecoder(out)
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	return c, c.cmd.Start()
}

// Ask sends a question, and decodes its answer.
func (c *Child) Ask(question, answer any) error {
	return errors.Join(json.NewEncoder(c.in).Encode(question), c.out.Decode(answer))
}

// End closes the child's standard input, and waits until it has ended.
func (c *Child) End() error { return errors.Join(c.in.Close(), c.cmd.Wait()) }

// Answer answers questions until in ends.
func Answer[Q, A any](in io.Reader, out io.Writer, answer func(Q) A) error {
	questions, answers := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var q Q
		if err := questions.Decode(&q); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := answers.Encode(answer(q)); err != nil {
			return err
		}
	}
}
