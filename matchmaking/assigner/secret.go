package assigner

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// secretBytes is how long a secret or a token may be. It also keeps a path to a wrong file from doing much.
const secretBytes = 16 << 10

// readSecret reads one line of text from a file, without its line end.
func readSecret(path string) (string, error) {
	file, err := os.Open(path) //nolint:gosec // the definition's, which whoever runs the service wrote
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	raw, err := io.ReadAll(io.LimitReader(file, secretBytes+1))
	if err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	text := strings.TrimRight(string(raw), "\r\n")
	switch {
	case text == "":
		return "", fmt.Errorf("%s is empty", path)
	case len(raw) > secretBytes:
		return "", fmt.Errorf("%s has more than %d bytes", path, secretBytes)
	case strings.ContainsAny(text, "\r\n\x00"):
		return "", fmt.Errorf("%s has more than one line", path)
	}
	return text, nil
}

// secretOf gives the secret of one of two keys, or none.
func secretOf(secret, file string) (string, error) {
	switch {
	case secret != "" && file != "":
		return "", errors.New("assigner.secret: it and secretFile can't both be set")
	case file == "":
		return secret, nil
	}
	text, err := readSecret(file)
	if err != nil {
		return "", fmt.Errorf("assigner.secretFile: %w", err)
	}
	return text, nil
}
