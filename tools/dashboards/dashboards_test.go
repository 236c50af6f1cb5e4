package dashboards_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/tools/dashboards"
)

const root = "../.."

func TestDashboards(t *testing.T) {
	t.Parallel()
	all, err := dashboards.Read(root)
	require.NoError(t, err)
	require.Len(t, all, 5)
	uids := map[string]bool{}
	for _, d := range all {
		require.NotEmpty(t, d.UID)
		require.False(t, uids[d.UID], "%s has the UID of another dashboard", d.File)
		uids[d.UID] = true
		require.NotEmpty(t, d.Title)
		require.GreaterOrEqual(t, d.SchemaVersion, 36, "the first with data sources that are objects")
		for _, v := range d.Templating.List {
			require.Contains(t, []string{"datasource", "query"}, v.Type, v.Name)
			require.NotEmpty(t, v.Query, v.Name)
		}
		checkPanels(t, d.Panels)
	}
}

// checkPanels checks that panels have places of their own, and that their expressions are PromQL.
func checkPanels(t *testing.T, panels []dashboards.Panel) {
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
			require.Equal(t, &dashboards.Source{Type: "prometheus", UID: "${datasource}"}, target.Datasource, p.Title)
			_, err := parser.ParseExpr(target.Query())
			require.NoError(t, err, "%s: %s", p.Title, target.Expr)
		}
	}
}

// TestRules: each alert has a severity that Alertmanager routes, a section of the runbook with cause, look and act, and a
// unit test in which it fires.
func TestRules(t *testing.T) {
	t.Parallel()
	rules, tested, err := dashboards.ReadRules(root)
	require.NoError(t, err)
	require.NotEmpty(t, rules)
	page, err := os.ReadFile(root + "/docs/runbook.md")
	require.NoError(t, err)
	sections := map[string]string{}
	for _, part := range strings.Split(string(page), "\n### ")[1:] {
		name, text, _ := strings.Cut(part, "\n")
		sections[name] = text
	}
	for _, r := range rules {
		_, err := parser.ParseExpr(r.Expr)
		require.NoError(t, err, r.Alert)
		require.Contains(t, []string{"critical", "warning"}, r.Labels["severity"], r.Alert)
		require.NotEmpty(t, r.Annotations["summary"], r.Alert)
		require.True(t, strings.HasSuffix(r.Annotations["runbook_url"], "/docs/runbook.md#"+strings.ToLower(r.Alert)),
			r.Alert)
		require.Regexp(t, regexp.MustCompile(`(?s)\n- \*\*Cause\.\*\* .+\n- \*\*Look\.\*\* .+\n- \*\*Act\.\*\* .+`),
			sections[r.Alert], r.Alert)
		delete(sections, r.Alert)
		require.True(t, tested[r.Alert], "%s fires in no test", r.Alert)
	}
	require.Empty(t, sections, "sections without an alert")
}
