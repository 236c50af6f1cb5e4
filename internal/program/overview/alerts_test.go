package overview

import (
	"flag"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/client"
)

var update = flag.Bool("update", false, "write deploy/prometheus/rules.yaml and the heads of docs/runbook.md")

var rulesFile = template.Must(template.New("").Funcs(template.FuncMap{
	"for": promDuration, "quoted": quoted,
	"indent": func(expr string) string {
		if !strings.Contains(expr, "\n") {
			return expr
		}
		return "|\n          " + strings.ReplaceAll(expr, "\n", "\n          ")
	},
}).Parse(`# Alerts of Tidemark. docs/runbook.md has a section for each; rules_test.yaml has a test for each, which promtool runs.
# The names of jobs must begin with tidemark, as in prometheus.yaml. Written by
# go test ./internal/program/overview -run TestRulesFile -update from internal/program/overview/alerts.go.
groups:
{{- range .}}
  - name: tidemark-{{.Group}}
    rules:
{{- range .Alerts}}
      - alert: {{.Name}}
        expr: {{indent .Expr}}
{{- if .Lasts}}
        for: {{for .Lasts}}
{{- end}}
        labels: {severity: {{.Severity}}}
        annotations:
          summary: {{quoted .Summary}}
          runbook_url: {{.Runbook}}
{{- end}}
{{- end}}
`))

// quoted quotes a text that isn't a plain scalar of YAML.
func quoted(text string) string {
	if strings.Contains(text, ": ") {
		return `"` + text + `"`
	}
	return text
}

// TestRulesFile: Prometheus has the alerts of the table, with the limits that servers use.
func TestRulesFile(t *testing.T) {
	t.Parallel()
	type row struct {
		Name, Expr, Summary, Runbook string
		Severity                     client.Severity
		Lasts                        time.Duration
	}
	type group struct {
		Group  string
		Alerts []row
	}
	var groups []group
	for _, g := range alerts {
		rows := make([]row, len(g.alerts))
		for i, a := range g.alerts {
			rows[i] = row{Name: a.name, Expr: a.expression(), Summary: a.summary, Severity: a.severity, Lasts: a.lasts,
				Runbook: docs + "runbook.md#" + strings.ToLower(a.name)}
		}
		groups = append(groups, group{g.group, rows})
	}
	var text strings.Builder
	require.NoError(t, rulesFile.Execute(&text, groups))
	const path = "../../../deploy/prometheus/rules.yaml"
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(text.String()), 0o600))
	}
	file, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, text.String(), string(file), "run the test with -update")
}

// TestRunbookHeads: docs/runbook.md has a section for each alert of the table, in its order, which begins with the
// alert's summary and severity.
func TestRunbookHeads(t *testing.T) {
	t.Parallel()
	const path = "../../../docs/runbook.md"
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	heads := map[string]string{}
	var names []string
	for _, g := range alerts {
		for _, a := range g.alerts {
			names = append(names, a.name)
			heads[a.name] = "### " + a.name + "\n\n" + a.summary + " (" + string(a.severity) + ").\n"
		}
	}
	var sections []string
	section := regexp.MustCompile(`(?m)^### (\w+)\n\n.*\n`)
	written := section.ReplaceAllFunc(page, func(head []byte) []byte {
		name := string(section.FindSubmatch(head)[1])
		sections = append(sections, name)
		return []byte(heads[name])
	})
	require.Empty(t, slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return slices.Contains(sections, name)
	}),
		"alerts without a section")
	require.Equal(t, names, sections)
	if *update {
		require.NoError(t, os.WriteFile(path, written, 0o600))
	}
	require.Equal(t, string(written), string(page), "run the test with -update")
}
