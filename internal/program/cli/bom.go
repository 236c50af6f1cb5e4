package cli

import (
	"bufio"
	"bytes"
	"io"
	"os"
)

// bom is the byte order mark with which some editors and shells begin a text.
var bom = []byte("\uFEFF")

// SkipBOM returns a reader of r without the byte order mark at its beginning.
func SkipBOM(r io.Reader) *bufio.Reader {
	buffered := bufio.NewReader(r)
	// More is read only if it may be one: the next byte of a terminal can take long. The reader returns errors again.
	if first, err := buffered.Peek(1); err == nil && first[0] == bom[0] {
		if start, err := buffered.Peek(len(bom)); err == nil && bytes.Equal(start, bom) {
			_, _ = buffered.Discard(len(bom)) // they are buffered
		}
	}
	return buffered
}

// ReadFile returns the content of a text file, without a byte order mark.
func ReadFile(name string) ([]byte, error) {
	text, err := os.ReadFile(name) //nolint:gosec // the user names it
	return bytes.TrimPrefix(text, bom), err
}
