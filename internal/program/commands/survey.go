package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/program/cli"
	"github.com/tidemark-dev/tidemark/internal/records/keyspace"
)

func newSurvey(t cli.Terminal) *cobra.Command {
	return cli.NewGroup("survey", "Let a server count all keys in Redis by kind", newSurveyStart(t), newSurveyShow(t),
		newSurveyCancel(t))
}

const surveyPause = 200 * time.Millisecond // between two looks at a survey that runs

func newSurveyStart(t cli.Terminal) *cobra.Command {
	var asJSON, awaits bool
	rate, largest := keyspace.DefaultRate, 3
	cmd := &cobra.Command{
		Use:        "start",
		SuggestFor: []string{"run", "begin"},
		Short:      "Start a survey of all keys, and optionally wait for its result",
		Long: `Start a survey of all keys of a service's Redis servers: how many there are of each kind, their memory, when
they end, and problems. The server that answers makes it in the background, one at a time: while one runs, none is
started, and what is printed is of the one that runs.

"tidemark redis-keys" does the same without a service, which needs the address of Redis and its credentials.`,
		Args: cli.Arguments(0, 0),
	}
	connection := cli.AddAdministration(cmd, t, 5*time.Second)
	cmd.Flags().IntVar(&rate, "rate", rate, "`N` look at N keys a second at most")
	cmd.Flags().IntVar(&largest, "largest", largest, "name the `N` largest keys of each kind, from 1 to 100")
	cmd.Flags().BoolVar(&awaits, "wait", false,
		"wait until it has ended, and print its result; an interruption doesn't cancel it")
	cmd.Flags().BoolVar(&asJSON, cli.JSONFlag, false, "print a line of JSON: Survey")
	connection.Handle(func(ctx context.Context, c *client.Client, _ []string) error {
		s, err := askSurvey(ctx, c, "start a survey", http.MethodPost, url.Values{"rate": {strconv.Itoa(rate)},
			"largest": {strconv.Itoa(largest)}})
		for err == nil && awaits && s.State == keyspace.StateRunning && wait(ctx, surveyPause) {
			s, err = askSurvey(ctx, c, "show the survey", http.MethodGet, nil)
		}
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return err
		}
		return writeSurvey(t, s, asJSON)
	})
	return cmd
}

func newSurveyShow(t cli.Terminal) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show the last survey of a server: its progress, or its result",
		Args:  cli.Arguments(0, 0),
	}
	connection := cli.AddAdministration(cmd, t, 5*time.Second)
	cmd.Flags().BoolVar(&asJSON, cli.JSONFlag, false, "print a line of JSON: Survey")
	connection.Handle(func(ctx context.Context, c *client.Client, _ []string) error {
		s, err := askSurvey(ctx, c, "show the survey", http.MethodGet, nil)
		if err != nil {
			return err
		}
		return writeSurvey(t, s, asJSON)
	})
	return cmd
}

func newSurveyCancel(t cli.Terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:        "cancel",
		SuggestFor: []string{"stop", "end"},
		Short:      "Cancel the survey of a server, if one runs",
		Args:       cli.Arguments(0, 0),
	}
	connection := cli.AddAdministration(cmd, t, 5*time.Second)
	connection.HandleQuietly("Survey", func(ctx context.Context, c *client.Client, _ []string) (any, error) {
		if _, err := c.Do(ctx, client.Call{What: "cancel the survey", Method: http.MethodDelete,
			Path: []string{"survey"}}, nil); err != nil {
			return nil, err
		}
		return askSurvey(ctx, c, "show the survey", http.MethodGet, nil)
	})
	return cmd
}

func askSurvey(ctx context.Context, c *client.Client, what, method string, query url.Values) (s keyspace.Survey,
	err error) {
	_, err = c.Do(ctx, client.Call{What: what, Method: method, Path: []string{"survey"}, Query: query}, &s)
	return s, err
}

// writeSurvey writes how far a survey is, and the reports that are complete. A survey that has failed is an error.
func writeSurvey(t cli.Terminal, s keyspace.Survey, asJSON bool) error {
	var failed error
	if s.State == keyspace.StateFailed {
		failed = &cli.ExitError{Status: 1, Err: fmt.Errorf("the survey has failed: %s", s.Error)}
	}
	if asJSON {
		return errors.Join(cli.WriteLine(t.Stdout, s), failed)
	}
	state := map[keyspace.State]string{keyspace.StateNone: "this server has made no survey of the keys since it started",
		keyspace.StateRunning:  fmt.Sprintf("running: %d of about %d keys", s.Seen, s.Total),
		keyspace.StateDone:     fmt.Sprintf("%d keys, %s ago", s.Seen, ago(s.EndedAt)),
		keyspace.StateCanceled: fmt.Sprintf("canceled after %d of about %d keys, %s ago", s.Seen, s.Total, ago(s.EndedAt))}
	if failed == nil {
		if _, err := fmt.Fprintln(t.Stdout, state[s.State]); err != nil {
			return err
		}
	}
	for _, r := range s.Redis {
		if _, err := fmt.Fprintln(t.Stdout); err != nil {
			return err
		}
		if err := WriteReport(t.Stdout, r.Redis, r.Report); err != nil {
			return err
		}
	}
	return failed
}

// WriteReport writes what was found in a Redis, for people to read: all kinds, the largest keys, and problems.
func WriteReport(w io.Writer, of string, report keyspace.Report) error {
	rows, largest, problems := "KIND\tKEYS\tBYTES\t≤1M\t≤1H\t≤1D\t≤30D\tLONGER\tPERMANENT\n", "", ""
	keys, bytes := int64(0), int64(0)
	for _, kind := range report.Kinds {
		t := kind.TTL
		rows += cli.Row("%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n", kind.Name, kind.Keys, kind.Bytes, t.Minute, t.Hour,
			t.Day, t.Month, t.Longer, t.Permanent)
		keys, bytes = keys+kind.Keys, bytes+kind.Bytes
		for _, size := range kind.Largest {
			largest += cli.Row("%s\t%d\t%s\n", kind.Name, size.Bytes, size.Key)
		}
		for _, text := range kind.Texts() {
			problems += "! " + text + "\n"
		}
	}
	rows += cli.Row("all of %s\t%d\t%d\t\t\t\t\t\t\n", of, keys, bytes)
	if err := cli.WriteTable(w, rows); err != nil {
		return err
	}
	if largest != "" {
		if err := cli.WriteTable(w, "\nLARGEST\tBYTES\tKEY\n"+largest); err != nil {
			return err
		}
	}
	if problems != "" {
		problems = "\n" + problems
	}
	_, err := io.WriteString(w, problems)
	return err
}
