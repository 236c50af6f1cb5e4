// Package dashboards reads the dashboards in deploy/grafana and the alert rules in deploy/prometheus for their tests. It
// is in a module of its own, since it needs the parser of Prometheus.
package dashboards

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"gopkg.in/yaml.v3"
)

// Dashboard has the checked parts of a dashboard, with Grafana's names.
type Dashboard struct {
	File          string `json:"-"`
	UID           string
	Title         string
	SchemaVersion int
	Templating    struct{ List []Variable }
	Panels        []Panel
}

// Variable is a variable of a dashboard.
type Variable struct {
	Name  string
	Type  string
	Query any // its text, or an object that has it as query
}

// Panel is a panel of a dashboard, or a row of panels.
type Panel struct {
	ID         int
	Type       string
	Title      string
	Datasource *Source
	GridPos    struct{ H, W, X, Y int }
	Targets    []Target
}

// Target is an expression of a panel.
type Target struct {
	RefID        string
	Expr         string
	LegendFormat string
	Datasource   *Source
}

// Source is a data source.
type Source struct{ Type, UID string }

// variables are the values that Grafana inserts into expressions.
var variables = strings.NewReplacer("$__rate_interval", "1m", "$__range", "1h", "$instance", ".*", "$cache", ".*",
	"$dc", ".*", "$queue", ".*", "$redis", ".*", "$channel", ".*")

// Query returns the expression with a value for each variable.
func (t Target) Query() string { return variables.Replace(t.Expr) }

// Read returns the dashboards of the repository at root.
func Read(root string) (all []Dashboard, err error) {
	files, err := filepath.Glob(filepath.Join(root, "deploy/grafana/*.json"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		content, err := os.ReadFile(file) //nolint:gosec // a dashboard
		if err != nil {
			return nil, err
		}
		d := Dashboard{File: filepath.Base(file)}
		if err := json.Unmarshal(content, &d); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, d)
	}
	return all, nil
}

// Rule is an alert rule.
type Rule struct {
	Alert       string
	Expr        string
	Labels      map[string]string
	Annotations map[string]string
}

// ReadRules returns the alert rules of the repository at root, and the names of the alerts that its unit tests expect.
func ReadRules(root string) (rules []Rule, tested map[string]bool, err error) {
	var file struct {
		Groups []struct{ Rules []Rule }
	}
	var tests struct {
		Tests []struct {
			Alerts []struct {
				Name     string `yaml:"alertname"`
				Expected []any  `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	for name, to := range map[string]any{"rules.yaml": &file, "rules_test.yaml": &tests} {
		content, err := os.ReadFile(filepath.Join(root, "deploy/prometheus", name)) //nolint:gosec // one of two
		if err != nil {
			return nil, nil, err
		}
		if err := yaml.Unmarshal(content, to); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	for _, g := range file.Groups {
		rules = append(rules, g.Rules...)
	}
	tested = map[string]bool{}
	for _, t := range tests.Tests {
		for _, a := range t.Alerts {
			tested[a.Name] = tested[a.Name] || len(a.Expected) > 0
		}
	}
	return rules, tested, nil
}
