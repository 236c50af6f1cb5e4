package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/access/keys"
	"github.com/tidemark-dev/tidemark/internal/program/cli"
)

func newKey(t cli.Terminal) *cobra.Command {
	return cli.NewGroup("key", "Create, list and revoke API keys", newKeyCreate(t), newKeyList(t), newKeyRevoke(t))
}

// keyFlags describe a new key.
type keyFlags struct {
	description, grants, limits, expires string
	file                                 string // to which the key is added
	json                                 bool
}

func newKeyCreate(t cli.Terminal) *cobra.Command {
	var f keyFlags
	cmd := &cobra.Command{
		Use:        "create",
		SuggestFor: []string{"add", "new", "make", "put"},
		Short:      "Create an API key and print it",
		Long: `Create an API key and print it, alone, on standard output. It is printed only this once: the service keeps its SHA-256.

With --append no service is needed: the key's entry is added to the YAML file of the service's --api-keys.`,
		Example: `  tidemark key create --description shop --grants '[{"actions":["publish"],"channels":["orders.*"]}]' > shop.key
  tidemark key create --append keys.yaml --description shop --grants shop.json > shop.key`,
		Args: cli.Arguments(0, 0),
	}
	connection := cli.AddAdministration(cmd, t, 5*time.Second)
	cmd.Flags().StringVar(&f.description, "description", "", "`TEXT` what the key is for")
	cmd.Flags().StringVar(&f.grants, "grants", "",
		"`GRANTS` what the key may do, as a JSON array, or a file that contains it (required)")
	cmd.Flags().StringVar(&f.limits, "limits", "",
		"`LIMITS` how much the key may do, as in requests=100/s,waits=50 (default: no limit)")
	cmd.Flags().StringVar(&f.expires, "expires", "",
		"`WHEN` the end of the key: a duration such as 90d or 12h, or a time such as 2030-01-31T12:00:00Z (default: never)")
	cmd.Flags().BoolVar(&f.json, cli.JSONFlag, false, "print a line of JSON: CreatedKey")
	cmd.Flags().StringVar(&f.file, "append", "", "`FILE` add the key to this file of --api-keys, and send nothing")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		n, err := f.newKey(time.Now())
		if err != nil {
			return err
		}
		if cmd.Flags().Changed("append") {
			return f.appendKey(t, n)
		}
		c, err := connection.Open()
		if err != nil {
			return err
		}
		defer c.Close()
		created, err := c.CreateKey(cmd.Context(), n)
		if err != nil {
			return err
		}
		t.Report("created API key %s; the key itself is printed only this once", created.ID)
		if err := f.print(t, created); err != nil {
			return err
		}
		if info, err := c.Info(cmd.Context()); err == nil && info.Access == "open" { // an error changes nothing for the key
			t.Report("the service checks no credentials, so the key has no effect yet: " +
				"start it with --require-credentials, --api-keys or --jwt-keys")
		}
		return nil
	}
	return cmd
}

// newKey returns the key that the flags ask for.
func (f *keyFlags) newKey(now time.Time) (n client.NewKey, err error) {
	n = client.NewKey{Description: f.description, Grants: json.RawMessage(strings.TrimSpace(f.grants)),
		Limits: f.limits}
	if len(n.Grants) == 0 {
		return n, cli.Usagef("--grants is missing")
	}
	if n.Grants[0] != '[' {
		if n.Grants, err = cli.ReadFile(f.grants); err != nil {
			return n, cli.Usagef("--grants: %w", err)
		}
	}
	if !json.Valid(n.Grants) {
		return n, cli.Usagef("--grants isn't JSON")
	}
	if n.Expires, err = parseWhen(f.expires, now); err != nil {
		return n, cli.Usagef("--expires: %w", err)
	}
	return n, nil
}

// parseWhen parses a time, or a duration from now, which may be in days. "" is the zero time.
func parseWhen(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	now = now.UTC().Truncate(time.Second)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			return now.AddDate(0, 0, int(n)), nil
		}
	}
	if d, err := time.ParseDuration(text); err == nil {
		return now.Add(d), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{},
			fmt.Errorf("%q is neither a duration, such as 90d or 12h, nor a time, such as 2030-01-31T12:00:00Z", text)
	}
	return at.UTC(), nil
}

// keyForm is the form of keys. What has another isn't printed: it is not the answer of a Tidemark service.
var keyForm = regexp.MustCompile(`^tmk_[0-9A-Za-z_-]+$`)

// print prints a new key.
func (f *keyFlags) print(t cli.Terminal, created client.CreatedKey) error {
	if !keyForm.MatchString(created.Text) {
		return errors.New("the answer has no API key, so it isn't that of a Tidemark service")
	}
	if f.json {
		return cli.WriteLine(t.Stdout, created)
	}
	_, err := fmt.Fprintln(t.Stdout, created.Text)
	return err
}

// appendKey makes a key, adds it to the file of keys, and prints it.
func (f *keyFlags) appendKey(t cli.Terminal, n client.NewKey) error {
	k, text, err := keys.Generate(keys.NewKey{Description: n.Description, Grants: n.Grants, Limits: n.Limits,
		Expires: n.Expires}, time.Now())
	if err != nil {
		return &cli.UsageError{Err: err}
	}
	if err := keys.Append(f.file, k); err != nil {
		return fmt.Errorf("add the key: %w", err)
	}
	t.Report("added API key %s to %s; the key itself is printed only this once", k.ID, f.file)
	return f.print(t, client.CreatedKey{Key: client.Key{ID: k.ID, NewKey: n, Created: k.Created}, Text: text})
}

func newKeyList(t cli.Terminal) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Show all API keys, without their secrets",
		Args:  cli.Arguments(0, 0),
	}
	connection := cli.AddAdministration(cmd, t, 5*time.Second)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a line of JSON for each key: Key")
	connection.Handle(func(ctx context.Context, c *client.Client, _ []string) error {
		keys, err := c.Keys(ctx)
		if err != nil {
			return err
		}
		if !asJSON {
			return writeKeys(t.Stdout, keys, time.Now())
		}
		for _, k := range keys {
			if err := cli.WriteLine(t.Stdout, k); err != nil {
				return err
			}
		}
		return nil
	})
	return cmd
}

func writeKeys(w io.Writer, keys []client.Key, now time.Time) error {
	rows := "KEY\tCREATED\tBY\tEXPIRES\tMAY\tDESCRIPTION\n"
	for _, k := range keys {
		by, expires := k.CreatedBy, "never"
		if k.Configured {
			by = "configuration"
		}
		if !k.Expires.IsZero() {
			expires = day(k.Expires)
			if !k.Expires.After(now) {
				expires = "expired"
			}
		}
		actions, err := actionsOf(k)
		if err != nil {
			return err
		}
		rows += cli.Row("%s\t%s\t%s\t%s\t%s\t%s\n", k.ID, day(k.Created), by, expires, actions,
			oneLine(k.Description))
	}
	return cli.WriteTable(w, rows)
}

// actionsOf returns the actions of a key, on any resource.
func actionsOf(k client.Key) (string, error) {
	var grants []struct {
		Actions []string `json:"actions"`
	}
	if err := json.Unmarshal(k.Grants, &grants); err != nil {
		return "", fmt.Errorf("the grants of API key %s: %w", k.ID, err)
	}
	var all []string
	for _, g := range grants {
		all = append(all, g.Actions...)
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ","), nil
}

func day(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.DateOnly)
}

// oneLine returns text without characters that would break a table.
func oneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
	if short := []rune(text); len(short) > 60 {
		return string(short[:59]) + "…"
	}
	return text
}

func newKeyRevoke(t cli.Terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:        "revoke KEY",
		SuggestFor: []string{"delete", "remove"},
		Short:      "Revoke an API key: delete it permanently",
		Long: `Revoke an API key: delete it permanently. KEY is its ID, which "tidemark key list" shows.

Within a second no server accepts the key any more, and requests that wait with it end.`,
		Args: cli.Arguments(1, 1),
	}
	connection := cli.AddAdministration(cmd, t, 5*time.Second)
	connection.HandleQuietly("id", func(ctx context.Context, c *client.Client, args []string) (any, error) {
		if strings.HasPrefix(args[0], keys.Prefix) {
			return nil, cli.Usagef(
				"KEY is the ID of the key, the 16 characters after %s: a key itself must not be an argument",
				keys.Prefix)
		}
		return map[string]string{"id": args[0]}, c.DeleteKey(ctx, args[0])
	})
	return cmd
}
