package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

// readAhead returns a reader that has buffered all of r.
func readAhead(t *testing.T, r io.Reader) *LineReader {
	t.Helper()
	lr := NewLineReader(100)
	lr.Read(t.Context(), r)
	return lr
}

func texts(lines []Line) []string {
	var all []string
	for _, l := range lines {
		all = append(all, string(l.Text))
	}
	return all
}

func TestBatchesAreAsLargeAsAllowed(t *testing.T) {
	t.Parallel()
	lr := readAhead(t, strings.NewReader("1\n2\r\n\n \n3\n4"))
	batch, err := lr.Batch(t.Context(), 3)
	require.NoError(t, err)
	require.Equal(t, []string{"1", "2", "3"}, texts(batch))
	require.Equal(t, 5, batch[2].Number, "blank lines count")
	batch, err = lr.Batch(t.Context(), 3)
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, []string{"4"}, texts(batch))
}

// Files that were made on Windows often begin with a byte order mark, and no other line does.
func TestByteOrderMarks(t *testing.T) {
	t.Parallel()
	const mark = "\uFEFF"
	for input, want := range map[string][]string{
		mark + "1\n" + mark + "2": {"1", mark + "2"}, "\n" + mark + "1": {mark + "1"}, mark: nil, mark[:2]: {mark[:2]},
	} {
		batch, err := readAhead(t, strings.NewReader(input)).Batch(t.Context(), 3)
		require.ErrorIs(t, err, io.EOF)
		require.Equal(t, want, texts(batch), "%q", input)
	}
	text, err := Terminal{Stdin: strings.NewReader(mark + "{}")}.ReadInput(t.Context(), "JSON")
	require.NoError(t, err)
	require.Equal(t, "{}", string(text))
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, []byte(mark+"{}"), 0o600))
	text, err = ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "{}", string(text))
}

// A terminal reports the end of its input once for each Ctrl-D.
func TestEndIsReadOnce(t *testing.T) {
	t.Parallel()
	ends := 0
	lr := readAhead(t, readerFunc(func([]byte) (int, error) {
		ends++
		return 0, io.EOF
	}))
	_, err := lr.Batch(t.Context(), 1)
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, 1, ends)
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestBatchesAreBoundedByBytes(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", batchBytes)
	lr := readAhead(t, strings.NewReader("1\n"+long+"\n2\n"))
	for _, want := range []int{1, batchBytes} {
		batch, err := lr.Batch(t.Context(), 10)
		require.NoError(t, err)
		require.Len(t, batch, 1)
		require.Len(t, batch[0].Text, want)
	}
	batch, err := lr.Batch(t.Context(), 10)
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, []string{"2"}, texts(batch))
}

func TestBatchDoesntWaitForMore(t *testing.T) {
	t.Parallel()
	lr := NewLineReader(10)
	lr.lines <- Line{Number: 1, Text: []byte("1")}
	batch, err := lr.Batch(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, []string{"1"}, texts(batch))
}

func TestInputThatBreaks(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	lr := readAhead(t, io.MultiReader(strings.NewReader("1\n"), iotest.ErrReader(broken)))
	batch, err := lr.Batch(t.Context(), 10)
	require.ErrorIs(t, err, broken)
	require.Equal(t, []string{"1"}, texts(batch))
}

func TestReadingEndsWithTheContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	lr := NewLineReader(0)
	lr.Read(ctx, strings.NewReader("1\n2\n"))
	_, err := lr.Batch(ctx, 10)
	require.ErrorIs(t, err, context.Canceled)
}
