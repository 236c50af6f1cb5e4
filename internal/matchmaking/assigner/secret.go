package assigner

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

// secretBytes is the length limit of a secret or token. It also limits the read of a wrong file.
const secretBytes = 16 << 10

// readSecret returns the only line of a file, without the line end.
func readSecret(path string) (string, error) {
	file, err := os.Open(path) //nolint:gosec // the operator chose the path
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

// secretOf returns the secret from one of two keys, or "".
func secretOf(secret, file string) (string, error) {
	switch {
	case secret != "" && file != "":
		return "", matchmaking.InvalidKey("assigner.secret", errors.New("secret and secretFile are both set"))
	case file == "":
		return secret, nil
	}
	text, err := readSecret(file)
	if err != nil {
		return "", matchmaking.InvalidKey("assigner.secretFile", err)
	}
	return text, nil
}
