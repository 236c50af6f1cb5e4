package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/tidemark-dev/tidemark/internal/cli"
	"github.com/tidemark-dev/tidemark/internal/commands"
	"github.com/tidemark-dev/tidemark/internal/config"
	"github.com/tidemark-dev/tidemark/internal/suggest"
	"github.com/tidemark-dev/tidemark/records/adopt"
	"github.com/tidemark-dev/tidemark/records/entities"
	"github.com/tidemark-dev/tidemark/records/keyset"
	"github.com/tidemark-dev/tidemark/records/tokens"
	"github.com/tidemark-dev/tidemark/storage/redis"
	redisrecords "github.com/tidemark-dev/tidemark/storage/redis/records"
)

func newRecords(t cli.Terminal) *cobra.Command {
	return cli.NewGroup("records", "Show the kinds of records, and take over those of another application",
		newAdopt(t), commands.NewKinds(t))
}

// adoptCommand is the command records adopt: it connects to Redis itself, and needs no service.
type adoptCommand struct {
	terminal cli.Terminal
	adopt.Options
	from       string
	fromPrefix string
	json       bool
}

func newAdopt(t cli.Terminal) *cobra.Command {
	a := &adoptCommand{terminal: t}
	cmd := &cobra.Command{
		Use:   "adopt",
		Short: "Take over the records that an application has written to Redis itself",
		Long: `Take over the records that an application has written to Redis itself: settings, views, OAuth tokens,
cached entities and follow lists. Without --apply nothing is changed: it prints what can be taken over, and what can't,
and why.

It connects to Redis itself, with the options, variables and file of "tidemark serve", and needs no service. The
application and the service can run meanwhile. What the service has written or removed itself stays so; views are added
to what it has counted. The command can be interrupted and repeated at any time: it takes over what the application has
changed and counted since. The application's keys stay, unless --remove is given. docs/records.md describes how to move
an application.`,
		Example: `  tidemark records adopt --redis redis://127.0.0.1:6379
  tidemark records adopt --redis redis://127.0.0.1:6379 --keyset oauth.keyset --apply
  tidemark records adopt --redis redis://127.0.0.1:6379 --from redis://127.0.0.1:6379/3 --kind viewed --apply --remove`,
		Args: cli.Arguments(0, 0),
	}
	config.AddRecordsFlags(cmd.Flags())
	flags := cmd.Flags()
	flags.BoolVar(&a.Apply, "apply", false, "take the records over; without it nothing is changed")
	flags.BoolVar(&a.Remove, "remove", false, "remove the application's keys whose records were taken over; needs --apply")
	flags.StringVar(&a.from, "from", "", "`URL` Redis of the application (default: those of the service)")
	flags.StringVar(&a.fromPrefix, "from-prefix", "", "`PREFIX` what the application's keys begin with")
	flags.StringSliceVar(&a.Kinds, "kind", nil,
		"`KIND` kind of the records to take over, as tidemark records kinds lists them; repeatable (default: all)")
	flags.IntVar(&a.Rate, "rate", adopt.DefaultRate,
		"`N` keys, and fields of hashes, to read in a second at most, those of others included")
	flags.BoolVar(&a.json, "json", false, "print a line of JSON for each Redis of the application: redis, applied and kinds")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := a.check(); err != nil {
			return err
		}
		c, err := config.LoadRedis(cmd.Flags(), t.Environ)
		if err != nil {
			return &cli.UsageError{Err: err}
		}
		if err := a.checkKinds(c.Records.Site.Caches); err != nil {
			return err
		}
		return a.run(cmd.Context(), c)
	}
	return cmd
}

func (a *adoptCommand) check() error {
	switch {
	case a.Rate < 1:
		return cli.Usagef("--rate: %d is too small, at least 1 is needed", a.Rate)
	case a.Remove && !a.Apply:
		return cli.Usagef("--remove needs --apply")
	}
	return nil
}

// checkKinds checks the kinds to be taken over, and sets those of cached values.
func (a *adoptCommand) checkKinds(caches *entities.Kinds) error {
	a.Caches = caches
	for _, name := range a.Kinds {
		if known := adopt.Names(caches); !slices.Contains(known, name) {
			return cli.Usagef("--kind: %q is none of the kinds that an application has%s", name,
				suggest.Hint(suggest.Near(name, known)))
		}
	}
	return nil
}

// run takes over the records of one Redis of the application after the other.
func (a *adoptCommand) run(ctx context.Context, c config.Config) error {
	log := newLogger(a.terminal.Stderr, c.Log.Format, c.Log.Level)
	to, err := openInstances(ctx, c, storeNeeds{log: log, metrics: prometheus.NewRegistry()})
	defer to.close()
	if err == nil {
		err = a.openKeyset(c)
	}
	if err != nil {
		return err
	}
	from, source := recordsServers(c), c
	if a.from != "" {
		from = []another{{key: "--from", url: a.from, of: "the application"}}
	}
	source.Redis.KeyPrefix = a.fromPrefix
	for _, one := range from {
		one.replica = !a.Remove
		conn, err := one.open(ctx, source, storeNeeds{log: log, metrics: prometheus.NewRegistry()})
		if err != nil {
			return err
		}
		report, err := a.adopt(ctx, one.of, conn, to)
		conn.Close()
		if err := errors.Join(err, a.print(one.of, report)); err != nil {
			return fmt.Errorf("%s: %w", one.key, err)
		}
	}
	return nil
}

func (a *adoptCommand) openKeyset(c config.Config) error {
	if a.Providers = c.Records.OAuth.Providers; a.Providers == nil {
		a.Providers = tokens.DefaultProviders
	}
	path := c.Records.OAuth.Keyset
	if path == "" {
		return nil
	}
	keys, err := keyset.Open(path)
	if err == nil {
		a.Sealer = keys
	}
	return err
}

// recordsServers returns the Redis servers that have records.
func recordsServers(c config.Config) []another {
	return slices.DeleteFunc(redisServers(c), func(one another) bool { return one.of == "tickets" })
}

// instances are connections of a command to the Redis servers that have records.
type instances struct {
	redisrecords.Instances
	opened []*redis.Conn
}

func (i *instances) close() {
	for _, conn := range i.opened {
		conn.Close()
	}
}

// openInstances connects to the Redis servers that have records. Close what it returns, also with an error.
func openInstances(ctx context.Context, c config.Config, needs storeNeeds) (*instances, error) {
	to := new(instances)
	for _, one := range recordsServers(c) {
		conn, err := one.open(ctx, c, needs)
		if err != nil {
			return to, err
		}
		to.opened = append(to.opened, conn)
		switch one.of {
		case "sessions":
			to.Sessions = conn
		case "cache":
			to.Cache = conn
		default:
			to.Instances = redisrecords.Instances{Records: conn, Sessions: conn, Cache: conn}
		}
	}
	return to, nil
}

// adopt takes over the records of one Redis of the application.
func (a *adoptCommand) adopt(ctx context.Context, of string, from *redis.Conn, to *instances) (adopt.Report, error) {
	o := a.Options
	if f, ok := a.terminal.Stderr.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		bar := newBar(f, of)
		defer bar.Finish() //nolint:errcheck // the terminal is closed, too
		o.Progress = func(seen, total int64) {
			bar.ChangeMax64(max(total, 1))
			_ = bar.Set64(seen) // as above
		}
	}
	return adopt.Run(ctx, redisrecords.NewOldRecords(from), redisrecords.NewAdopted(to.Instances), o)
}

// print prints a report: all kinds, then what can't be taken over, and why.
func (a *adoptCommand) print(of string, report adopt.Report) error {
	if a.json {
		return cli.WriteLine(a.terminal.Stdout, struct {
			Redis   string `json:"redis"`
			Applied bool   `json:"applied"`
			adopt.Report
		}{of, a.Apply, report})
	}
	adopted := "TO ADOPT"
	if a.Apply {
		adopted = "ADOPTED"
	}
	rows, refused, notes := "KIND\tKEYS\t"+adopted+"\tPRESENT\tREFUSED\tREMOVED\n", "", ""
	for _, k := range report.Kinds {
		rows += fmt.Sprintf("%s\t%d\t%d\t%d\t%d\t%d\n", k.Name, k.Keys, k.Adopted, k.Present, k.Refused, k.Removed)
		for _, one := range k.Refusals {
			refused += fmt.Sprintf("%s\t%s\t%s\n", k.Name, one.Key, one.Reason)
		}
		if more := k.Refused - int64(len(k.Refusals)); more > 0 {
			refused += fmt.Sprintf("%s\t…\tand %d more\n", k.Name, more)
		}
		if k.Note != "" {
			notes += fmt.Sprintf("! %s: %s\n", k.Name, k.Note)
		}
	}
	if err := cli.WriteTable(a.terminal.Stdout, rows); err != nil {
		return err
	}
	if refused != "" {
		if err := cli.WriteTable(a.terminal.Stdout, "\nREFUSED\tKEY\tREASON\n"+refused); err != nil {
			return err
		}
	}
	if !a.Apply {
		notes += "! nothing was changed: repeat with --apply\n"
	}
	_, err := io.WriteString(a.terminal.Stdout, "\n"+notes)
	return err
}
