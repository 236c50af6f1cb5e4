package live_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
)

// onFaults are the metrics of which only a fault that no test makes here has series: their labels are those on the page.
var onFaults = []string{"tidemark_http_frame_floods_total"}

// checker looks for what expressions name in a Prometheus and in docs/monitoring.md.
type checker struct {
	prometheus
	rows     map[string]string // of the page, by metric
	known    map[string]map[string]map[string]bool
	problems []string
}

func newChecker(t *testing.T, p prometheus) *checker {
	t.Helper()
	page, err := os.ReadFile("../../../docs/monitoring.md")
	require.NoError(t, err)
	c := &checker{prometheus: p, rows: map[string]string{}}
	for _, row := range regexp.MustCompile("(?m)^\\| `(tidemark_\\w+)[^\n]*").FindAllStringSubmatch(string(page), -1) {
		c.rows[row[1]] = row[0]
	}
	return c
}

func (c *checker) problem(format string, args ...any) {
	c.problems = append(c.problems, fmt.Sprintf(format, args...))
}

// labelsOf returns the values of each label of a metric's series, or those of the page for one of onFaults.
func (c *checker) labelsOf(metric string) map[string]map[string]bool {
	if found := c.known[metric]; found != nil {
		return found
	}
	found := map[string]map[string]bool{}
	all, err := c.series(metric)
	if err != nil {
		c.problem("%s: %v", metric, err)
	}
	for _, one := range all {
		for name, value := range one {
			if found[name] == nil {
				found[name] = map[string]bool{}
			}
			found[name][value] = true
		}
	}
	if len(all) == 0 && slices.Contains(onFaults, metric) {
		_, list, _ := strings.Cut(c.rows[metric], "{")
		list, _, _ = strings.Cut(list, "}")
		for _, name := range append(strings.Split(list, ","), "instance", "job") {
			found[name] = map[string]bool{}
		}
	} else if len(all) == 0 {
		c.problem("no series %s", metric)
	}
	c.known[metric] = found
	return found
}

// selector checks a selector, and reports whether it matches any series.
func (c *checker) selector(s *parser.VectorSelector, where string) (matches bool) {
	known := c.labelsOf(s.Name)
	for _, m := range s.LabelMatchers {
		values, ok := known[m.Name]
		switch {
		case m.Name == labels.MetricName:
		case !ok:
			c.problem("%s: %s has no label %s", where, s.Name, m.Name)
		case m.Type == labels.MatchEqual && !values[m.Value] && !regexp.MustCompile(`^\d{3}$`).MatchString(m.Value) &&
			!strings.Contains(c.rows[s.Name], "`"+m.Value+"`"):
			c.problem("%s: %s has no %s %s", where, s.Name, m.Name, m.Value)
		}
	}
	all, err := c.series(s.String())
	if err != nil {
		c.problem("%s: %v", where, err)
	}
	return len(all) > 0
}

// expression checks all that an expression names. If its selectors match series it must have a result, whose labels are
// returned; of comparisons, each side must.
func (c *checker) expression(text, where string) []map[string]string {
	expr, err := parser.ParseExpr(text)
	if err != nil {
		c.problem("%s: %v", where, err)
		return nil
	}
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.AggregateExpr:
			c.grouping(n.Grouping, n.Expr, where)
		case *parser.BinaryExpr:
			if n.VectorMatching != nil && n.VectorMatching.On {
				c.grouping(n.VectorMatching.MatchingLabels, n.LHS, where)
				c.grouping(n.VectorMatching.MatchingLabels, n.RHS, where)
			}
		}
		return nil
	})
	return c.result(expr, where)
}

func (c *checker) result(expr parser.Expr, where string) []map[string]string {
	if b, ok := expr.(*parser.BinaryExpr); ok && (b.Op.IsComparisonOperator() || b.Op.IsSetOperator()) {
		found := c.result(b.LHS, where)
		c.result(b.RHS, where)
		return found
	}
	matches := true
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if s, ok := node.(*parser.VectorSelector); ok {
			matches = c.selector(s, where) && matches
		}
		return nil
	})
	if expr.Type() == parser.ValueTypeScalar {
		return nil
	}
	found, _, err := c.query(expr.String())
	if err != nil {
		c.problem("%s: %v", where, err)
	}
	if matches && len(found) == 0 {
		c.problem("%s: no result: %s", where, expr)
	}
	result := make([]map[string]string, len(found))
	for i := range found {
		result[i] = found[i]
	}
	return result
}

// grouping checks that the series below an expression have labels.
func (c *checker) grouping(names []string, below parser.Expr, where string) {
	known := map[string]bool{}
	parser.Inspect(below, func(node parser.Node, _ []parser.Node) error {
		if s, ok := node.(*parser.VectorSelector); ok {
			for name := range c.labelsOf(s.Name) {
				known[name] = true
			}
		}
		return nil
	})
	for _, name := range names {
		if !known[name] {
			c.problem("%s: nothing in %s has the label %s", where, below, name)
		}
	}
}

var legend = regexp.MustCompile(`{{\s*(\w+)\s*}}`)

// legends checks that the labels of a legend are in results.
func (c *checker) legends(format string, results []map[string]string, where string) {
	for _, one := range legend.FindAllStringSubmatch(format, -1) {
		if len(results) > 0 && !slices.ContainsFunc(results, func(r map[string]string) bool { return r[one[1]] != "" }) {
			c.problem("%s: the legend names %s, which the result doesn't have", where, one[1])
		}
	}
}
