package commands

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/docs"
	"github.com/tidemark-dev/tidemark/internal/program/cli"
)

// methods are those of the HTTP API.
var methods = []string{http.MethodDelete, http.MethodGet, http.MethodPatch, http.MethodPost, http.MethodPut}

func newAPI(t cli.Terminal) *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:        "api METHOD PATH [BODY]",
		SuggestFor: []string{"cache", "curl", "http", "kinds", "records", "request", "state", "stats"},
		Short:      "Send a request to the HTTP API, and print the answer",
		Long: `Send a request to the HTTP API, and print the body of the answer: all requests of docs/openapi.yaml, but no WebSockets.

METHOD is GET, POST, PUT, PATCH or DELETE. PATH begins with /, and may have a query. BODY is a text, @FILE, or - for
standard input. It is JSON; a cached value may be another text. Other users of the machine can see arguments: give
secrets with @FILE or -.

GET, PUT and DELETE are tried again like other commands; POST and PATCH only if the service can't be connected to, or
has refused the request without executing it. If the status of the answer is 400 or more, standard error says why, and
the exit status is 1.`,
		Example: `  tidemark api GET /v1/users/ann/sessions
  tidemark api PUT '/v1/cache/shouts/limit=20?ttl=1m&tags=front-page' @shouts.json
  tidemark api POST /v1/sessions/check - < token.json
  tidemark api GET /v1/keys --admin http://127.0.0.1:8081`,
		Args:              cli.Arguments(2, 3),
		ValidArgsFunction: completeRequest,
	}
	connection := cli.AddConnection(cmd, t, patience)
	connection.OrAdministration()
	cmd.Flags().DurationVar(&timeout, "timeout", 90*time.Second, "how long the answer may take to begin")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		method, err := parseMethod(args[0])
		if err != nil {
			return err
		}
		path, err := parsePath(args[1])
		if err != nil {
			return err
		}
		service, err := connection.Open(client.WithTimeout(timeout))
		if err != nil {
			return err
		}
		defer service.Close()
		body, err := readBody(cmd.Context(), t, method, path, args[2:])
		if err != nil {
			return err
		}
		answer, err := service.Request(cmd.Context(), method, path, body)
		if err != nil {
			return err
		}
		err = writeAnswer(t, answer)
		return errors.Join(err, answer.Body.Close())
	}
	return cmd
}

func parseMethod(text string) (string, error) {
	method := strings.ToUpper(text)
	if !slices.Contains(methods, method) {
		return "", cli.Usagef("METHOD: %q is none of %s", text, strings.Join(methods, ", "))
	}
	return method, nil
}

// parsePath returns the path and query of a request, with the characters escaped that a request can't have.
func parsePath(text string) (string, error) {
	switch {
	case strings.Contains(text, "://") && !strings.HasPrefix(text, "/"):
		return "", cli.Usagef("PATH: %q has the service's URL, which is for --server: begin with /, such as /v1/queues", text)
	case !strings.HasPrefix(text, "/"):
		return "", cli.Usagef("PATH: %q doesn't begin with /, such as /v1/queues", text)
	}
	u, err := url.ParseRequestURI(text)
	if err != nil {
		return "", cli.Usagef("PATH: %w; write a percent sign as %%25", err)
	}
	path := u.EscapedPath()
	if u.RawQuery != "" {
		path += "?" + strings.NewReplacer(" ", "%20", "#", "%23").Replace(u.RawQuery)
	}
	return path, nil
}

// readBody returns the body of a request, or nil without one.
func readBody(ctx context.Context, t cli.Terminal, method, path string, args []string) (body []byte, err error) {
	switch {
	case len(args) == 0:
		return nil, nil
	case method == http.MethodGet:
		return nil, cli.Usagef("GET has no BODY: put parameters into PATH, such as /v1/queues?limit=10")
	case args[0] == "-":
		t.ReportInput("the body") // which is sent as it is
		if body, err = readInput(ctx, t.Stdin); err != nil {
			return nil, fmt.Errorf("read standard input: %w", err)
		}
	case strings.HasPrefix(args[0], "@"):
		file, err := os.Open(args[0][1:])
		if err != nil {
			return nil, cli.Usagef("BODY: %w", err)
		}
		defer file.Close() //nolint:errcheck // it was only read
		if body, err = readInput(ctx, file); err != nil {
			return nil, cli.Usagef("BODY: %w", err)
		}
	default:
		body = []byte(args[0])
	}
	isText := method == http.MethodPut && strings.HasPrefix(path, "/v1/cache/")
	var value json.RawMessage
	if err := json.Unmarshal(body, &value); err != nil && !isText {
		return nil, cli.Usagef("BODY isn't JSON: %w; quote it for the shell, or read it from a file with @FILE", err)
	}
	return body, nil
}

// maxInput is the largest body, in bytes: no call takes more without other options.
const maxInput = 64 << 20

// readInput reads a body to its end.
func readInput(ctx context.Context, from io.Reader) ([]byte, error) {
	body, err := cli.ReadAll(ctx, io.LimitReader(from, maxInput+1))
	if err == nil && len(body) > maxInput {
		err = fmt.Errorf("it has more than %d MiB", maxInput>>20)
	}
	return body, err
}

// writeAnswer writes the body of an answer as it arrives. A terminal gets JSON indented, and no control characters.
func writeAnswer(t cli.Terminal, answer *http.Response) error {
	write := func(text string) error {
		_, err := io.WriteString(t.Stdout, cli.PrintableLines(strings.TrimSuffix(text, "\n"))+"\n")
		return err
	}
	switch isJSON := strings.HasPrefix(answer.Header.Get("Content-Type"), "application/json"); {
	case !cli.IsTerminal(t.Stdout):
		_, err := io.Copy(t.Stdout, answer.Body)
		return wrapAnswer(err)
	case isJSON:
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			return wrapAnswer(err)
		}
		var indented bytes.Buffer
		if err := json.Indent(&indented, body, "", "  "); err != nil {
			return write(string(body))
		}
		return write(indented.String())
	}
	for lines := bufio.NewReader(answer.Body); ; {
		line, err := lines.ReadString('\n')
		if line != "" {
			err = errors.Join(write(line), err)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return wrapAnswer(err)
		}
	}
}

func wrapAnswer(err error) error {
	if err != nil {
		return fmt.Errorf("copy the answer: %w", err)
	}
	return nil
}

// completeRequest completes the method, and the path, by the description of the HTTP API.
func completeRequest(_ *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	var all []string
	switch len(args) {
	case 0:
		all, prefix = slices.Clone(methods), strings.ToUpper(prefix)
	case 1:
		all = routes(args[0])
	default:
		return nil, cobra.ShellCompDirectiveDefault
	}
	return slices.DeleteFunc(all, func(text string) bool { return !strings.HasPrefix(text, prefix) }),
		cobra.ShellCompDirectiveNoFileComp
}

// routes returns the paths of the HTTP API that have a method, with names in braces.
func routes(method string) (paths []string) {
	path, operation := "", "    "+strings.ToLower(method)+":\n"
	for line := range strings.Lines(string(docs.OpenAPI)) {
		switch {
		case strings.HasPrefix(line, "  /"):
			path = strings.TrimSuffix(strings.TrimSpace(line), ":")
		case line[0] != ' ' && line[0] != '\n':
			path = "" // the part with the paths has ended
		case line == operation && path != "":
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}
