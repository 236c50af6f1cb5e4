package commands

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/client/records"
	"github.com/tidemark-dev/tidemark/internal/program/cli"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

func newViews(t cli.Terminal) *cobra.Command {
	return cli.NewGroup("views", "Count views, read them, and import those of another system", newViewsCount(t),
		newViewsShow(t), newViewsImport(t), cli.Renamed("get", "views show", newViewsShow(t)))
}

func newViewsCount(t cli.Terminal) *cobra.Command {
	views := int64(1)
	cmd := &cobra.Command{
		Use:     "count ID...",
		Short:   "Count a view of each ID",
		Long:    "Count a view of each ID. The service writes it within a second.",
		Example: "  tidemark views count 456\n  tidemark views count --views 20 456 457",
		Args:    cli.Arguments(1, 256),
	}
	connection := cli.AddConnection(cmd, t, 5*time.Second)
	cmd.Flags().Int64Var(&views, "views", views, "`N` views of each")
	connection.HandleQuietly("ViewCounts of the HTTP API", func(ctx context.Context, c *client.Client, ids []string) (any, error) {
		counts := map[string]int64{}
		for _, id := range ids {
			counts[id] += views
		}
		return wire.ViewCounts{Views: counts}, records.New(c).CountViews(ctx, counts)
	})
	return cmd
}

func newViewsShow(t cli.Terminal) *cobra.Command {
	var asJSON bool
	var slugs []string
	cmd := &cobra.Command{
		Use:     "show [ID...]",
		Short:   "Show the views of IDs and slugs",
		Example: "  tidemark views show 456\n  tidemark views show --slug publication-slug",
		Args:    cli.Arguments(0, 256),
	}
	connection := cli.AddConnection(cmd, t, 5*time.Second)
	cmd.Flags().StringArrayVar(&slugs, "slug", nil, "`SLUG` show the views of this slug, too; may be repeated")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a line of JSON for each ID: Views")
	connection.Handle(func(ctx context.Context, c *client.Client, ids []string) error {
		if len(ids)+len(slugs) == 0 {
			return cli.Usagef("neither an ID nor --slug is given")
		}
		found, err := records.New(c).Views(ctx, ids, slugs)
		if err != nil {
			return err
		}
		if asJSON {
			return writeLines(t, found)
		}
		rows := "ID\tVIEWS\tCOUNTED\tMIGRATED\n"
		for _, v := range found {
			rows += fmt.Sprintf("%s\t%d\t%d\t%d\n", v.ID, v.Total, v.Counted, v.Migrated)
		}
		return cli.WriteTable(t.Stdout, rows)
	})
	return cmd
}

// writeLines prints each value as one line of JSON.
func writeLines[T any](t cli.Terminal, values []T) error {
	for _, v := range values {
		if err := cli.WriteLine(t.Stdout, v); err != nil {
			return err
		}
	}
	return nil
}

func newViewsImport(t cli.Terminal) *cobra.Command {
	var slugsFile string
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Import the views that another system has counted",
		Long: `Import the views that another system has counted, from the fields of its hash migrated_views_<timestamp> as a JSON object: views
by ID, "_timestamp", and "_total", which must be the number of IDs. FILE can be - for standard input.

When the import is complete, it replaces earlier ones. It can be repeated without harm.`,
		Example: `  redis-cli --json HGETALL migrated_views_1640995200 > views.json
  redis-cli --json HGETALL migrated_views_slugs > slugs.json
  tidemark views import --slugs slugs.json views.json`,
		Args: cli.Arguments(1, 1),
	}
	connection := cli.AddConnection(cmd, t, time.Minute)
	cmd.Flags().StringVar(&slugsFile, "slugs", "",
		"`FILE` import the hash migrated_views_slugs from this file, too: IDs by slug")
	connection.HandleQuietly("ViewsImport of the HTTP API", func(ctx context.Context, c *client.Client, args []string) (any, error) {
		fields, err := readHash(ctx, t, args[0])
		if err != nil {
			return nil, err
		}
		var slugs map[string]string
		if slugsFile != "" {
			if slugs, err = readHash(ctx, t, slugsFile); err != nil {
				return nil, err
			}
		}
		state, err := records.New(c).ImportViews(ctx, fields, slugs, func(done, all int) {
			t.Report("imported %d of %d", done, all)
		})
		if err == nil && !state.Current {
			t.Report("a later import is complete, and is read")
		}
		return state, err
	})
	return cmd
}

// readHash reads the fields of a hash from a file with a JSON object, whose values are strings or numbers.
func readHash(ctx context.Context, t cli.Terminal, name string) (fields map[string]string, err error) {
	var text []byte
	if name == "-" {
		text, err = t.ReadInput(ctx, "the views")
	} else {
		text, err = os.ReadFile(name) //nolint:gosec // the user names the file
	}
	if err != nil {
		return nil, cli.Usagef("%w", err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	values := map[string]any{}
	if err := d.Decode(&values); err != nil {
		return nil, cli.Usagef("%s isn't a JSON object: %w", name, err)
	}
	fields = make(map[string]string, len(values))
	for field, value := range values {
		fields[field] = fmt.Sprint(value)
	}
	return fields, nil
}
