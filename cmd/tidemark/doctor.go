package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tidemark-dev/tidemark/internal/program/cli"
	"github.com/tidemark-dev/tidemark/internal/program/config"
	"github.com/tidemark-dev/tidemark/internal/program/overview"
	"github.com/tidemark-dev/tidemark/internal/redact"
	"github.com/tidemark-dev/tidemark/internal/wire"
	"github.com/tidemark-dev/tidemark/storage/managed"
)

const (
	doctorLimit   = 30 * time.Second // of all checks
	doctorConnect = 5 * time.Second  // of the connection to one Redis
	doctorHTTP    = 5 * time.Second  // of a request to a listener
	doctorText    = 1000             // bytes of one text
)

// outcome is the outcome of a check.
type outcome string

const (
	fine    outcome = "ok"
	warning outcome = "warning"
	failure outcome = "failure"
)

// checkOptions is the check that fails if an option can't be used.
const checkOptions = "options"

// finding is one check and its outcome.
type finding struct {
	Outcome outcome `json:"outcome"`
	About   string  `json:"about"` // the Redis of: channels, tickets, sessions or cache; or service
	Check   string  `json:"check"`
	Found   string  `json:"found"`
	Remedy  string  `json:"remedy,omitempty"`

	// Clause is Found as a clause of a sentence; "": Found is one.
	Clause string `json:"-"`
}

// advice returns what was found and what to change, in one sentence.
func (f finding) advice() string {
	text := printable(cmp.Or(f.Clause, f.Found))
	if f.Remedy != "" {
		text += "; " + printable(f.Remedy)
	}
	return text
}

// diagnosis is the findings of tidemark doctor.
type diagnosis struct {
	Outcome outcome   `json:"outcome"` // the worst
	Running bool      `json:"running"` // a service listens on one of the addresses
	Checks  []finding `json:"checks"`
}

func newDoctor(t cli.Terminal) *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check Redis and this machine for a service, and say what to change",
		Long: `Check Redis and this machine for a service, and say what to change.

It takes the options, variables and file of "tidemark serve", and checks what that service would use: each Redis, with
its version, persistence, eviction, memory, replicas, the rights of the user, writes and notifications, latency, clock
and the slots of a Cluster; the keys of receipts; the certificate; and the addresses to listen on, which may be those of
a service that runs. It changes nothing, but for a key under the key prefix that lives for a minute, as a readiness probe
does. It ends after 30 seconds at the latest.

Each line is ok, a warning or a failure. The exit status is 0 if nothing failed, 1 if something did, and 2 if the
configuration is wrong.`,
		Example: `  tidemark doctor --redis redis://10.0.0.5:6379
  tidemark doctor --config tidemark.yaml --json`,
		Args: cli.Arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), doctorLimit)
			defer cancel()
			c, err := loadConfig(ctx, func() (config.Config, error) { return config.Load(cmd.Flags(), t.Environ) })
			if err != nil {
				return err
			}
			found := runChecks(ctx, c)
			if cmd.Context().Err() != nil {
				return cmd.Context().Err()
			}
			return found.print(t.Stdout, asJSON)
		},
	}
	config.AddFlags(cmd.Flags())
	cmd.Flags().VisitAll(func(f *pflag.Flag) { f.Hidden = f.Name != "config" && f.Name != "redis" })
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a line of JSON: outcome, running and checks")
	return cmd
}

// runChecks makes all checks, those of each Redis at the same time.
func runChecks(ctx context.Context, c config.Config) diagnosis {
	servers := redisServers(c)
	found := make([][]finding, len(servers)+1)
	var checks sync.WaitGroup
	for i, server := range servers {
		checks.Go(func() { found[i] = checkRedis(ctx, c, server) })
	}
	running := false
	checks.Go(func() { found[len(servers)], running = checkListeners(ctx, c) })
	checks.Wait()
	d := diagnosis{Outcome: fine, Running: running}
	for _, some := range found {
		for _, f := range some {
			f.Found, f.Remedy = printable(f.Found), printable(f.Remedy)
			if f.Outcome == failure || d.Outcome == fine {
				d.Outcome = f.Outcome
			}
			d.Checks = append(d.Checks, f)
		}
	}
	return d
}

// print prints the findings. The error of a failure has been printed with them.
func (d diagnosis) print(w io.Writer, asJSON bool) error {
	var err error
	if asJSON {
		err = cli.WriteLine(w, d)
	} else {
		rows := ""
		for _, f := range d.Checks {
			rows += cli.Row("%s\t%s\t%s\t%s\n", f.Outcome, f.About, f.Check, f.Found)
			if f.Remedy != "" {
				rows += cli.Row("\t\t\t-> %s\n", f.Remedy)
			}
		}
		err = cli.WriteTable(w, rows)
	}
	if err != nil || d.Outcome != failure {
		return err
	}
	status := exitFailure
	if slices.ContainsFunc(d.Checks, func(f finding) bool { return f.Check == checkOptions }) {
		status = exitUsage
	}
	return &cli.ExitError{Status: status, Err: errors.New("a check failed")}
}

// printable returns a text of others, such as a server's error, in one line that cli.Printable has escaped. One that is
// too long ends with an ellipsis.
func printable(text string) string {
	return redact.Cut(cli.Printable(strings.ReplaceAll(strings.TrimSpace(text), "\n", "; ")), doctorText)
}

// checks collects findings about one thing.
type checks struct {
	about string
	found []finding
}

// add adds a finding. remedy is left out if the outcome is fine.
func (k *checks) add(o outcome, check, remedy, format string, args ...any) {
	if o == fine {
		remedy = ""
	}
	k.found = append(k.found, finding{Outcome: o, About: k.about, Check: check, Found: fmt.Sprintf(format, args...),
		Remedy: remedy})
}

// addClause is add for a finding that says in a clause what was found.
func (k *checks) addClause(o outcome, check, clause, remedy, found string) {
	k.add(o, check, remedy, "%s", found)
	k.found[len(k.found)-1].Clause = clause
}

// warnings returns the advice of the findings that aren't fine.
func (k *checks) warnings() (all []string) {
	for _, f := range k.found {
		if f.Outcome != fine {
			all = append(all, f.advice())
		}
	}
	return all
}

// checkListeners checks the certificate, and the addresses to listen on, and reports whether a service listens on one.
func checkListeners(ctx context.Context, c config.Config) (found []finding, running bool) {
	k := &checks{about: "service"}
	quiet := slog.New(slog.DiscardHandler)
	on, err := newListening(c, quiet)
	if err != nil {
		k.add(failure, "certificate", fmt.Sprintf("fix %s, %s or %s", config.InServe("tls-cert"), config.InServe("tls-key"),
			config.InServe("tls-client-ca")), "%v", err)
		return k.found, false
	}
	k.certificate(c.TLS)
	var used []string
	for _, option := range []string{optionListen, optionGRPCListen, optionAdmin} {
		if on.addresses[option] == "" {
			continue
		}
		switch err := on.free(ctx, option); {
		case err == nil:
			k.add(fine, option, "", "%s is free", on.addresses[option])
		case errors.Is(err, errInUse), errors.Is(err, errSocketInUse):
			used = append(used, option)
			running = running || option != optionGRPCListen && on.isService(ctx, option)
		default:
			k.add(failure, option, "", "%v", err)
		}
	}
	for _, option := range used {
		if running {
			k.add(fine, option, "", "%s is in use, and a Tidemark service runs", on.addresses[option])
			continue
		}
		k.add(failure, option, "stop that program, or set another "+config.InServe(option),
			"%s is in use by another program: no Tidemark service was found", on.addresses[option])
	}
	if !running {
		k.add(fine, "running", "", "no service listens on these addresses")
	}
	return k.found, running
}

// certificate checks how long the certificate is valid.
func (k *checks) certificate(files config.TLS) {
	if files.Cert == "" {
		return
	}
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		k.add(failure, "certificate", fmt.Sprintf("fix %s or %s", config.InServe("tls-cert"), config.InServe("tls-key")),
			"%v", err)
		return
	}
	o, ends := fine, pair.Leaf.NotAfter
	switch remaining := time.Until(ends); {
	case remaining <= 0 || time.Now().Before(pair.Leaf.NotBefore):
		o = failure
	case remaining < overview.CertificateNotice:
		o = warning
	}
	k.add(o, "certificate", "renew "+files.Cert, "valid until %s", ends.UTC().Format(time.DateTime))
}

// free returns an error if a service can't listen on the address of an option. It makes no file.
func (on listening) free(ctx context.Context, option string) error {
	if path, ok := strings.CutPrefix(on.addresses[option], config.UnixPrefix); ok {
		return abandoned(ctx, path)
	}
	l, err := on.bind(ctx, option)
	if err != nil {
		return err
	}
	return l.Close()
}

// isService reports whether a Tidemark service answers at the address of an option. One that asks for certificates of
// clients answers with an alert, and shows the certificate of tls-cert.
func (on listening) isService(ctx context.Context, option string) bool {
	ctx, cancel := context.WithTimeout(ctx, doctorHTTP)
	defer cancel()
	l := newLivez(on.addresses[option], on.certs != nil)
	response, err := l.request(ctx)
	if err != nil {
		shown := l.shown.Load()
		return isAlert(err) && shown != nil && on.certs.Shows(shown)
	}
	defer response.Body.Close() //nolint:errcheck // what was read counts
	body, err := io.ReadAll(io.LimitReader(response.Body, doctorText))
	var status wire.Status
	return err == nil && response.StatusCode == http.StatusOK && json.Unmarshal(body, &status) == nil &&
		status.Status == "ok"
}

// checkManaged checks whether a service can run a Redis of its own, if none runs.
func (k *checks) checkManaged(c config.Managed) {
	path, err := managed.FindBinary(c.Binary)
	if err != nil {
		k.add(failure, "redis-server", fmt.Sprintf("install Redis 7.0 or newer or Valkey, set %s, or set %s to a Redis",
			config.InServe("redis-binary"), config.InServe("redis")), "%v", err)
		return
	}
	k.add(fine, "redis-server", "", "none runs in %s: tidemark serve will start %s", c.DataDir, path)
}

// quietNeeds are the dependencies of a connection that logs nothing.
func quietNeeds() storeNeeds {
	return storeNeeds{log: slog.New(slog.DiscardHandler), metrics: prometheus.NewRegistry()}
}
