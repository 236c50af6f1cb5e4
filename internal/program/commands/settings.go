package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/client/records"
	"github.com/tidemark-dev/tidemark/internal/program/cli"
)

const patience = 5 * time.Second

func newSettings(t cli.Terminal) *cobra.Command {
	return cli.NewGroup("settings", "List, watch, export and import settings",
		newSettingsList(t), newSettingsWatch(t), newSettingsExport(t), newSettingsImport(t))
}

func newSettingsList(t cli.Terminal) *cobra.Command {
	var category string
	var asJSON bool
	cmd := &cobra.Command{Use: "list", Short: "Show all settings, without the values of secrets",
		Args: cli.Arguments(0, 0)}
	connection := cli.AddConnection(cmd, t, patience)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a line of JSON for each setting: Setting")
	addCategory(cmd, &category)
	connection.Handle(func(ctx context.Context, c *client.Client, _ []string) error {
		all, err := records.New(c).Settings(ctx, category)
		if err != nil {
			return err
		}
		rows := "NAME\tCATEGORY\tVALUE\n"
		for _, s := range all {
			if asJSON {
				if err := cli.WriteLine(t.Stdout, s); err != nil {
					return err
				}
				continue
			}
			value := "(secret)"
			if s.Value != nil {
				value = fmt.Sprintf("%q", shortened(*s.Value))
			}
			rows += cli.Row("%s\t%s\t%s\n", s.Name, s.Category, value)
		}
		if asJSON {
			return nil
		}
		return cli.WriteTable(t.Stdout, rows)
	})
	return cmd
}

func addCategory(cmd *cobra.Command, category *string) {
	cmd.Flags().StringVar(category, "category", "", "`CATEGORY` only settings of this category, such as features")
}

// shortened returns the beginning of a value, for a table.
func shortened(value string) string {
	if runes := []rune(value); len(runes) > 60 {
		return string(runes[:59]) + "…"
	}
	return value
}

func newSettingsWatch(t cli.Terminal) *cobra.Command {
	var category string
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Print all settings, and then each that changes",
		Long: `Print all settings as lines of JSON, and then each that changes, until it is interrupted. A deleted
setting has the member "deleted".

It needs the grants to read settings and to subscribe to the channel "settings".`,
		Args: cli.Arguments(0, 0),
	}
	connection := cli.AddConnection(cmd, t, patience)
	cli.OnlyJSON(cmd, "Setting, a line for each; a deleted one has only name and deleted")
	addCategory(cmd, &category)
	connection.Handle(func(ctx context.Context, c *client.Client, _ []string) error {
		ctx, stop := context.WithCancelCause(ctx)
		defer stop(nil)
		err := records.New(c).LiveSettings(records.LiveOptions{Category: category,
			Changed: func(name string, now *records.Setting) {
				var line any = now
				if now == nil {
					line = map[string]any{"name": name, "deleted": true}
				}
				if err := cli.WriteLine(t.Stdout, line); err != nil {
					stop(err)
				}
			}}).Run(ctx)
		if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
			return cause
		}
		return err
	})
	return cmd
}

// backup is a whole backup: as the service's pages, without a cursor.
type backup struct {
	Settings []records.SavedSetting `json:"settings"`
}

func newSettingsExport(t cli.Terminal) *cobra.Command {
	var category string
	cmd := &cobra.Command{
		Use:     "export",
		Short:   "Print all settings as a backup, with secrets in the clear",
		Example: "  (umask 077; tidemark settings export > settings.json)",
		Args:    cli.Arguments(0, 0),
	}
	connection := cli.AddAdministration(cmd, t, patience)
	cli.OnlyJSON(cmd, "SavedSettings, indented")
	addCategory(cmd, &category)
	connection.Handle(func(ctx context.Context, c *client.Client, _ []string) error {
		all, err := records.New(c).ExportSettings(ctx, category)
		if err != nil {
			return err
		}
		encoder := json.NewEncoder(t.Stdout)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		return encoder.Encode(backup{Settings: append([]records.SavedSetting{}, all...)})
	})
	return cmd
}

func newSettingsImport(t cli.Terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import",
		Short: "Put all settings of a backup from standard input",
		Long: `Put all settings of a backup, which "tidemark settings export" has printed, from standard input. Other
settings stay. If it fails, a repeat completes it.`,
		Example: "  tidemark settings import < settings.json",
		Args:    cli.Arguments(0, 0),
	}
	connection := cli.AddAdministration(cmd, t, patience)
	connection.HandleQuietly("ImportedSettings of the HTTP API", func(ctx context.Context, c *client.Client, _ []string) (any, error) {
		text, err := t.ReadInput(ctx, "the backup")
		if err != nil {
			return nil, err
		}
		var saved backup
		if err := json.Unmarshal(text, &saved); err != nil {
			return nil, cli.Usagef("standard input isn't a backup of settings: %w", err)
		}
		n, err := records.New(c).ImportSettings(ctx, saved.Settings)
		if err == nil || n > 0 {
			t.Report("%d of %d settings were put", n, len(saved.Settings))
		}
		return map[string]int{"imported": n}, err
	})
	return cmd
}
