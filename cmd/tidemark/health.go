package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/program/cli"
	"github.com/tidemark-dev/tidemark/internal/program/config"
)

// healthCommand is the command health.
type healthCommand struct {
	terminal cli.Terminal
	config   string // path of the service's YAML file
	live     bool
	json     bool
	timeout  time.Duration
	first    string // file with the arguments of the first process
}

// healthForm is the output of health --json.
type healthForm struct {
	Server         string `json:"server"`
	Status         string `json:"status"` // ok, unreachable, the slug of the service's error, or error
	Error          string `json:"error,omitempty"`
	DurationMillis int64  `json:"durationMs"`
}

// errRefused is the error of a service that answers, but refuses its own certificate as that of a client.
var errRefused = fmt.Errorf("%w: it asks for a certificate of tlsClientCa, which tlsCert isn't: set adminListen to "+
	"unix:PATH, or give --server, --ca-file, --cert-file and --key-file; --live needs none", client.ErrUnreachable)

func newHealth(t cli.Terminal) *cobra.Command {
	h := &healthCommand{terminal: t, first: "/proc/1/cmdline"}
	cmd := &cobra.Command{
		Use:        "health",
		SuggestFor: []string{"healthcheck", "ready", "ping"},
		Short:      "Check that a service is ready",
		Long: `Check that a service is ready, by its /readyz.

Without --server it checks the service that "tidemark serve" runs with the same environment variables and YAML file, as
in the same container, where the arguments of "tidemark serve" count too if it is the first process, or an init is that
starts it, unless --config is given. The service is checked on a Unix socket if admin-listen is one, or else on the
address of listen. Over TLS that service must show the certificate of tls-cert, whatever its names are. If it asks for a
certificate, it is shown the same one; if that isn't signed by tls-client-ca, only --live can succeed. Other options may
have faults.

It exits with status 0 if the service is ready, 1 if it isn't, and 2 if the command was called wrongly.`,
		Example: `  tidemark health
  tidemark health --server unix:/run/tidemark/admin.sock --json
  tidemark health --retry-for 30s && echo started`,
		Args: cli.Arguments(0, 0),
	}
	connection := cli.AddConnection(cmd, t, 0)
	cmd.Flags().StringVar(&h.config, "config", "",
		"`FILE` the YAML file of the service to check; "+config.EnvPrefix+"CONFIG changes the default")
	cmd.Flags().DurationVar(&h.timeout, "timeout", 6*time.Second,
		"how long to wait for an answer; the service takes up to 5s to check itself")
	cmd.Flags().BoolVar(&h.live, "live", false, "check only that it answers, by its /livez, and not that it can serve")
	cmd.Flags().BoolVar(&h.json, "json", false, "print a line of JSON: server, status, error and durationMs")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return h.run(cmd, connection) }
	return cmd
}

func (h *healthCommand) run(cmd *cobra.Command, connection *cli.Connection) error {
	if h.timeout <= 0 {
		return cli.Usagef("--timeout: must be more than 0")
	}
	options, isOwn := []client.Option{client.WithTimeout(h.timeout)}, false
	server := cmd.Flags().Lookup("server")
	if !server.Changed && h.terminal.Getenv(config.ServerVariable) == "" {
		own, err := config.Within(cmd.Context(), h.timeout, h.ownService)
		if err != nil {
			return &cli.UsageError{Err: err}
		}
		if err := server.Value.Set(own.url); err != nil {
			return err
		}
		if own.transport != nil {
			isOwn = true
			options = append(options, client.WithHTTPClient(&http.Client{Transport: own.transport}))
		}
	}
	service, err := connection.Open(options...)
	if err != nil {
		return err
	}
	defer service.Close()
	check := service.Ready
	if h.live {
		check = service.Live
	}
	started := time.Now()
	err = check(cmd.Context())
	if isOwn && isAlert(err) { // the service has shown its certificate, and refuses that of the client
		err = errRefused
		if h.live {
			err = nil
		}
	}
	if h.json {
		return h.write(healthForm{Server: server.Value.String(), DurationMillis: time.Since(started).Milliseconds()}, err)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", server.Value, err)
	}
	_, err = fmt.Fprintln(h.terminal.Stdout, "ok")
	return err
}

// write prints the result as JSON. Then nothing is printed on standard error.
func (h *healthCommand) write(form healthForm, failed error) error {
	var answered *client.Error
	switch {
	case failed == nil:
		form.Status = "ok"
	case errors.Is(failed, context.Canceled):
		return failed
	case errors.Is(failed, client.ErrUnreachable):
		form.Status = "unreachable"
	case errors.As(failed, &answered) && answered.Slug() != "":
		form.Status = string(answered.Slug())
	default:
		form.Status = "error"
	}
	if failed != nil {
		form.Error = failed.Error()
	}
	if err := cli.WriteLine(h.terminal.Stdout, form); err != nil || failed == nil {
		return err
	}
	return &cli.ExitError{Status: exitFailure, Err: failed}
}

// ownService is how to reach a service on this machine.
type ownService struct {
	url       string
	transport *http.Transport // nil: the client's own
}

// reachable returns the host to connect to for a service on this machine that listens on host. It is an address where
// that is all addresses, since an image may have neither /etc/hosts nor a resolver.
func reachable(host string) string {
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		return "127.0.0.1"
	}
	return host
}

// serveArguments returns the arguments of `tidemark serve` in the command line of a process, as Linux has it, or none if
// the process runs something else. An init has the command line of what it starts at the end of its own.
func serveArguments(commandLine []byte) []string {
	words := strings.Split(strings.TrimSuffix(string(commandLine), "\x00"), "\x00")
	for i := range len(words) - 1 {
		if path.Base(words[i]) == "tidemark" && words[i+1] == "serve" {
			return words[i+2:]
		}
	}
	return nil
}

// ownService returns how to reach the service with the configuration of this environment.
func (h *healthCommand) ownService() (ownService, error) {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	config.AddFlags(flags)
	if h.config != "" { // of a service that isn't the first process
		if err := flags.Set("config", h.config); err != nil {
			return ownService{}, err
		}
	} else if text, err := os.ReadFile(h.first); err == nil { // there is none on other systems than Linux
		if err := flags.Parse(serveArguments(text)); err != nil {
			return ownService{}, fmt.Errorf("the arguments of the service: %w", err)
		}
	}
	c, err := config.LoadListen(flags, h.terminal.Environ)
	if err != nil {
		return ownService{}, err
	}
	if strings.HasPrefix(c.Server.AdminListen, config.UnixPrefix) {
		return ownService{url: c.Server.AdminListen}, nil
	}
	host, port, err := net.SplitHostPort(c.Server.Listen)
	switch {
	case err != nil:
		return ownService{}, err
	case port == "0":
		return ownService{}, errors.New("listen: port 0 is any free port: give --server")
	}
	address := net.JoinHostPort(reachable(host), port)
	if c.TLS.Cert == "" {
		return ownService{url: "http://" + address}, nil
	}
	shown, err := tls.LoadX509KeyPair(c.TLS.Cert, c.TLS.Key)
	if err != nil {
		return ownService{}, fmt.Errorf("read the service's certificate: %w", err)
	}
	return ownService{url: "https://" + address, transport: &http.Transport{TLSClientConfig: &tls.Config{
		MinVersion:         tls.VersionTLS12,
		Certificates:       []tls.Certificate{shown}, // if the service asks for one
		InsecureSkipVerify: true,                     //nolint:gosec // it must be the service's own, see VerifyConnection
		VerifyConnection: func(state tls.ConnectionState) error {
			if !bytes.Equal(state.PeerCertificates[0].Raw, shown.Certificate[0]) {
				return fmt.Errorf("its certificate isn't the one in %s", c.TLS.Cert)
			}
			return nil
		},
	}}}, nil
}
