package commands

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/client/records"
	"github.com/tidemark-dev/tidemark/internal/program/cli"
)

func newViews(t cli.Terminal) *cobra.Command {
	return cli.NewGroup("views", "Import the views that another system has counted", newViewsImport(t))
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
		text, err = cli.ReadFile(name)
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
