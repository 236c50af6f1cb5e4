// Package live_test compares the dashboards and the alert rules with what a Prometheus scrapes from running servers and
// nodes of shards. `make monitoring` runs it.
package live_test

import (
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/tools/dashboards"
)

const (
	root     = "../../.."
	patience = 2 * time.Minute
)

// await repeats a check until it has no problems, and fails the test if that takes too long.
func await(t *testing.T, check func() (problems []string)) {
	t.Helper()
	again := time.NewTicker(time.Second)
	defer again.Stop()
	for limit := time.After(patience); ; {
		problems := check()
		if len(problems) == 0 {
			return
		}
		select {
		case <-limit:
			require.Fail(t, strings.Join(problems, "\n"))
			return
		case <-again.C:
		}
	}
}

// TestEveryExpression: all metrics and labels that dashboards and rules name exist, and panels show something.
func TestEveryExpression(t *testing.T) {
	t.Parallel()
	all, err := dashboards.Read(root)
	require.NoError(t, err)
	rules, _, err := dashboards.ReadRules(root)
	require.NoError(t, err)
	s := startSite(t)
	p := startPrometheus(t, s, "--enable-feature=exemplar-storage")
	c := newChecker(t, p)
	await(t, func() []string {
		c.problems, c.known = nil, map[string]map[string]map[string]bool{}
		for _, d := range all {
			c.dashboard(d)
		}
		for _, r := range rules {
			c.expression(r.Expr, r.Alert)
		}
		found, err := p.rules()
		require.NoError(t, err)
		for _, r := range rules {
			if found[r.Alert] != "ok" {
				c.problem("%s: %q", r.Alert, found[r.Alert])
			}
		}
		return c.problems
	})
	require.Empty(t, firing(t, p, "TidemarkNoDirector"))
	await(t, func() []string {
		if ids := p.exemplars("tidemark_http_request_seconds_bucket"); !slices.ContainsFunc(ids, traceID.MatchString) {
			return []string{"no trace in exemplars", strings.Join(ids, " ")}
		}
		return nil
	})
	_, values, err := p.query(`count(up == 0)`)
	require.NoError(t, err)
	require.Equal(t, []string{"1"}, values, "only the node that was killed is down")
	_, values, err = p.query(`sum(tidemark_streams{transport="sse"})`)
	require.NoError(t, err)
	require.Equal(t, []string{"1"}, values)

	lint := exec.CommandContext(t.Context(), "promtool", "check", "metrics")
	lint.Stdin = strings.NewReader(s.page())
	text, err := lint.CombinedOutput()
	require.NoError(t, err, "%s", text)
}

var traceID = regexp.MustCompile(`^[0-9a-f]{32}$`)

var labelValues = regexp.MustCompile(`^label_values\((.+), (\w+)\)$`)

func (c *checker) dashboard(d dashboards.Dashboard) {
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		query, ok := v.Query.(map[string]any)
		require.True(c.t, ok, "%s: %s", d.File, v.Name)
		found := labelValues.FindStringSubmatch(fmt.Sprint(query["query"]))
		if found == nil {
			c.problem("%s: %v isn't label_values(metric, label)", d.File, query["query"])
			continue
		}
		expr, err := parser.ParseExpr(dashboards.Target{Expr: found[1]}.Query())
		require.NoError(c.t, err)
		c.grouping([]string{found[2]}, expr, d.File)
	}
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			where := d.File + ": " + p.Title
			c.legends(target.LegendFormat, c.expression(target.Query(), where), where)
		}
	}
}

func firing(t *testing.T, p prometheus, alert string) []labelSet {
	t.Helper()
	found, _, err := p.query(`ALERTS{alertname="` + alert + `",alertstate="firing"}`)
	require.NoError(t, err)
	return found
}

// TestNativeHistograms: a Prometheus that asks for native histograms gets them.
func TestNativeHistograms(t *testing.T) {
	t.Parallel()
	s := startSite(t)
	p := startPrometheus(t, s, "--enable-feature=native-histograms")
	await(t, func() []string {
		_, values, err := p.query(`histogram_count(sum(tidemark_http_request_seconds)) > 0`)
		require.NoError(t, err)
		if len(values) == 0 {
			return []string{"no native histogram"}
		}
		return nil
	})
}
