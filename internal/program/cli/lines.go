package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
)

// batchBytes is how many bytes a batch of more than one line has at most.
const batchBytes = 1 << 20

// Line is a line of the input that isn't blank.
type Line struct {
	Number int // counted from 1, with blank lines
	Text   []byte
	err    error // why there are no more lines
}

// LineReader reads lines ahead, so that it knows which lines are available without waiting for more.
type LineReader struct {
	lines chan Line
	held  *Line // received, but for the next batch; owned by Batch's caller
}

// NewLineReader returns a reader that reads ahead by that many lines.
func NewLineReader(ahead int) *LineReader { return &LineReader{lines: make(chan Line, ahead)} }

// Read sends the lines of r until it or ctx ends.
func (lr *LineReader) Read(ctx context.Context, r io.Reader) {
	buffered := bufio.NewReader(r)
	for number := 1; ; number++ {
		text, err := buffered.ReadBytes('\n')
		if number == 1 {
			text = TrimBOM(text)
		}
		if text = bytes.TrimRight(text, "\r\n"); len(bytes.TrimSpace(text)) > 0 {
			lr.send(ctx, Line{Number: number, Text: text})
		}
		if errors.Is(err, io.EOF) {
			lr.send(ctx, Line{err: io.EOF})
			return
		}
		if err != nil {
			lr.send(ctx, Line{err: fmt.Errorf("read standard input: %w", err)})
			return
		}
		if ctx.Err() != nil {
			return
		}
	}
}

func (lr *LineReader) send(ctx context.Context, l Line) {
	select {
	case lr.lines <- l:
	case <-ctx.Done():
	}
}

// Batch waits for a line, and returns it with the lines that are available then, at most n in all. The error says why
// there are no more lines after those; io.EOF is the end.
func (lr *LineReader) Batch(ctx context.Context, n int) ([]Line, error) {
	var batch []Line
	size := 0
	for len(batch) < n {
		l, ok := lr.take(ctx, len(batch) == 0)
		switch {
		case !ok:
			return batch, ctx.Err()
		case l.err != nil:
			return batch, l.err
		case len(batch) > 0 && size+len(l.Text) > batchBytes:
			lr.held = &l
			return batch, nil
		}
		batch = append(batch, l)
		size += len(l.Text)
	}
	return batch, nil
}

// take returns the next line. If there is none yet, it waits or reports false.
func (lr *LineReader) take(ctx context.Context, wait bool) (Line, bool) {
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
			return Line{}, false
		}
	}
	select {
	case l := <-lr.lines:
		return l, true
	default:
		return Line{}, false
	}
}
