package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

// readAhead makes a reader that has read all of r.
func readAhead(t *testing.T, r io.Reader) *lineReader {
	t.Helper()
	lr := newLineReader(100)
	lr.read(t.Context(), r)
	return lr
}

func texts(lines []line) []string {
	var all []string
	for _, l := range lines {
		all = append(all, string(l.text))
	}
	return all
}

func TestBatchesAreAsLargeAsAllowed(t *testing.T) {
	t.Parallel()
	lr := readAhead(t, strings.NewReader("1\n2\r\n\n \n3\n4"))
	batch, err := lr.batch(t.Context(), 3)
	require.NoError(t, err)
	require.Equal(t, []string{"1", "2", "3"}, texts(batch))
	require.Equal(t, 5, batch[2].number, "blank lines count")
	batch, err = lr.batch(t.Context(), 3)
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, []string{"4"}, texts(batch))
}

func TestBatchesAreBoundedByBytes(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", batchBytes)
	lr := readAhead(t, strings.NewReader("1\n"+long+"\n2\n"))
	for _, want := range []int{1, batchBytes} {
		batch, err := lr.batch(t.Context(), 10)
		require.NoError(t, err)
		require.Len(t, batch, 1)
		require.Len(t, batch[0].text, want)
	}
	batch, err := lr.batch(t.Context(), 10)
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, []string{"2"}, texts(batch))
}

func TestBatchDoesntWaitForMore(t *testing.T) {
	t.Parallel()
	lr := newLineReader(10)
	lr.lines <- line{number: 1, text: []byte("1")}
	batch, err := lr.batch(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, []string{"1"}, texts(batch))
}

func TestInputThatBreaks(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	lr := readAhead(t, io.MultiReader(strings.NewReader("1\n"), iotest.ErrReader(broken)))
	batch, err := lr.batch(t.Context(), 10)
	require.ErrorIs(t, err, broken)
	require.Equal(t, []string{"1"}, texts(batch))
}

func TestReadingEndsWithTheContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	lr := newLineReader(0)
	lr.read(ctx, strings.NewReader("1\n2\n"))
	_, err := lr.batch(ctx, 10)
	require.ErrorIs(t, err, context.Canceled)
}
