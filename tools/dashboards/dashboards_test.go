// Package dashboards_test checks the dashboards for Grafana. It is a module of its own, since it needs the parser of
// Prometheus.
package dashboards_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
)

// dashboard has the checked parts of a dashboard, with Grafana's names.
type dashboard struct {
	UID           string
	Title         string
	SchemaVersion int
	Templating    struct{ List []variable }
	Panels        []panel
}

type variable struct {
	Name  string
	Type  string
	Query any
}

type panel struct {
	ID         int
	Type       string
	Title      string
	Datasource *source
	GridPos    struct{ H, W, X, Y int }
	Targets    []struct {
		RefID      string
		Expr       string
		Datasource *source
	}
}

type source struct{ Type, UID string }

// variables are the values that Grafana inserts into expressions.
var variables = strings.NewReplacer("$__rate_interval", "1m", "$__range", "1h", "$cache", ".*", "$dc", ".*")

func TestDashboards(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../deploy/grafana/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			content, err := os.ReadFile(file)
			require.NoError(t, err)
			var d dashboard
			require.NoError(t, json.Unmarshal(content, &d))
			require.NotEmpty(t, d.UID)
			require.NotEmpty(t, d.Title)
			require.GreaterOrEqual(t, d.SchemaVersion, 36, "the first with data sources that are objects")
			for _, v := range d.Templating.List {
				require.Contains(t, []string{"datasource", "query"}, v.Type, v.Name)
				require.NotEmpty(t, v.Query, v.Name)
			}
			checkPanels(t, d.Panels)
		})
	}
}

// checkPanels checks that panels have places of their own, and that their expressions are PromQL.
func checkPanels(t *testing.T, panels []panel) {
	t.Helper()
	ids, places := map[int]bool{}, map[[2]int]string{}
	for _, p := range panels {
		require.NotEmpty(t, p.Title)
		require.False(t, ids[p.ID], "%s has the ID of another panel", p.Title)
		ids[p.ID] = true
		require.True(t, p.GridPos.H > 0 && p.GridPos.W > 0 && p.GridPos.X+p.GridPos.W <= 24, p.Title)
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				require.Empty(t, places[[2]int{x, y}], "%s is above another panel", p.Title)
				places[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		require.NotEmpty(t, p.Targets, p.Title)
		refs := map[string]bool{}
		for _, target := range p.Targets {
			require.False(t, refs[target.RefID], "%s: %s stands twice", p.Title, target.RefID)
			refs[target.RefID] = true
			require.Equal(t, &source{"prometheus", "${datasource}"}, target.Datasource, p.Title)
			_, err := parser.ParseExpr(variables.Replace(target.Expr))
			require.NoError(t, err, "%s: %s", p.Title, target.Expr)
		}
	}
}
