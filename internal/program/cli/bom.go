package cli

import (
	"bytes"
	"os"
)

// TrimBOM returns a text without the byte order mark with which some editors and shells begin one.
func TrimBOM(text []byte) []byte { return bytes.TrimPrefix(text, []byte("\uFEFF")) }

// ReadFile returns the content of a text file, without a byte order mark.
func ReadFile(name string) ([]byte, error) {
	text, err := os.ReadFile(name) //nolint:gosec // the user names it
	return TrimBOM(text), err
}
