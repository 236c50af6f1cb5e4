package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/tidemark-dev/tidemark/internal/program/config"
)

// maxTokenBytes limits how much of a token's file is read: more than any token has.
const maxTokenBytes = 16 << 10

// tokenFlags select the API key or token that a command sends.
type tokenFlags struct {
	token, file string
}

func (f *tokenFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.token, "token", "",
		"`TOKEN` API key or token to send; other users of the machine can see flags: prefer --token-file or "+
			config.TokenVariable)
	flags.StringVar(&f.file, "token-file", "", "`FILE` file that contains the API key or token, read again for each request")
}

// source returns how a command gets its token: from a flag, or else from the environment. The token may be empty.
func (f *tokenFlags) source(t Terminal) (func(context.Context) (string, error), error) {
	token := f.token
	switch {
	case f.token != "" && f.file != "":
		return nil, Usagef("--token and --token-file can't be combined")
	case f.file != "":
		if _, err := readToken(f.file); err != nil {
			return nil, Usagef("--token-file: %w", err)
		}
		return func(context.Context) (string, error) { return readToken(f.file) }, nil
	case f.token == "":
		token = strings.TrimSpace(t.Getenv(config.TokenVariable))
	}
	return func(context.Context) (string, error) { return token, nil }, nil
}

// readToken returns the content of a file, without white space around it.
func readToken(path string) (string, error) {
	file, err := os.Open(path) //nolint:gosec // the user names the file
	if err != nil {
		return "", err
	}
	defer file.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(file, maxTokenBytes+1))
	token := strings.TrimSpace(string(text))
	switch {
	case err != nil:
		return "", err
	case len(text) > maxTokenBytes:
		return "", fmt.Errorf("%s has more than %d bytes", path, maxTokenBytes)
	case token == "":
		return "", errors.New(path + " is empty")
	}
	return token, nil
}
