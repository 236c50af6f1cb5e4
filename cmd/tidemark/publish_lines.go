package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/tidemark-dev/tidemark/client"
)

// batchBytes is how many bytes are published together at most, where it is more than one line.
const batchBytes = 1 << 20

// publishLines publishes lines as they come, as many together as are there. After a failure all lines before the
// batch that failed are published, and none after it.
func (f *publishFlags) publishLines(ctx context.Context, c *client.Client, t terminal, channel string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	in := newLineReader(f.batch)
	go in.read(ctx, t.stdin)
	for {
		lines, ended := in.batch(ctx, f.batch)
		var drafts []client.Draft
		for _, l := range lines {
			content, err := f.content(l.text)
			if err != nil {
				ended = usagef("line %d %w", l.number, err)
				break
			}
			drafts = append(drafts, client.Draft{Content: content})
		}
		if len(drafts) > 0 {
			published, err := c.PublishBatch(ctx, channel, drafts)
			if err != nil {
				return fmt.Errorf("lines from %d on: %w", lines[0].number, err)
			}
			for _, p := range published {
				if err := writeLine(t.stdout, p); err != nil {
					return fmt.Errorf("write: %w", err)
				}
			}
		}
		switch {
		case errors.Is(ended, io.EOF):
			return nil
		case ended != nil:
			return ended
		}
	}
}

// line is a line of the input that isn't blank, or why there are no more.
type line struct {
	number int
	text   []byte
	err    error
}

// lineReader reads ahead, so that it knows which lines are there without waiting for more.
type lineReader struct {
	lines chan line
	held  *line // taken out of lines, but for the next batch; owned by batch's caller
}

func newLineReader(ahead int) *lineReader { return &lineReader{lines: make(chan line, ahead)} }

// read sends the lines of r until it or ctx ends.
func (lr *lineReader) read(ctx context.Context, r io.Reader) {
	buffered := bufio.NewReader(r)
	for number := 1; ; number++ {
		text, err := buffered.ReadBytes('\n')
		if text = bytes.TrimRight(text, "\r\n"); len(bytes.TrimSpace(text)) > 0 {
			lr.send(ctx, line{number: number, text: text})
		}
		if errors.Is(err, io.EOF) {
			lr.send(ctx, line{err: io.EOF})
			return
		}
		if err != nil {
			lr.send(ctx, line{err: fmt.Errorf("read standard input: %w", err)})
			return
		}
		if ctx.Err() != nil {
			return
		}
	}
}

func (lr *lineReader) send(ctx context.Context, l line) {
	select {
	case lr.lines <- l:
	case <-ctx.Done():
	}
}

// batch waits for a line, and gives it with those that are there too, at most n of them. Its error says why no
// more will come; io.EOF is the end.
func (lr *lineReader) batch(ctx context.Context, n int) ([]line, error) {
	var batch []line
	size := 0
	for len(batch) < n {
		l, ok := lr.take(ctx, len(batch) == 0)
		switch {
		case !ok:
			return batch, ctx.Err()
		case l.err != nil:
			return batch, l.err
		case len(batch) > 0 && size+len(l.text) > batchBytes:
			lr.held = &l
			return batch, nil
		}
		batch = append(batch, l)
		size += len(l.text)
	}
	return batch, nil
}

// take gives the next line, waiting for it or not.
func (lr *lineReader) take(ctx context.Context, wait bool) (line, bool) {
	if lr.held != nil {
		l := *lr.held
		lr.held = nil
		return l, true
	}
	if wait {
		select {
		case l := <-lr.lines:
			return l, true
		case <-ctx.Done():
			return line{}, false
		}
	}
	select {
	case l := <-lr.lines:
		return l, true
	default:
		return line{}, false
	}
}
