package live_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// prometheus is a running Prometheus.
type prometheus struct {
	t   *testing.T
	url string
}

// startPrometheus starts a Prometheus with the configuration of deploy/prometheus, for other addresses, each second.
func startPrometheus(t *testing.T, s *site, flags ...string) prometheus {
	t.Helper()
	dir := t.TempDir()
	content, err := os.ReadFile("../../../deploy/prometheus/prometheus.yaml")
	require.NoError(t, err)
	rules, err := filepath.Abs("../../../deploy/prometheus/rules.yaml")
	require.NoError(t, err)
	config := string(content)
	for _, change := range [][2]string{
		{"127.0.0.1:8081", s.admin}, {"127.0.0.1:7101", strings.Join(s.nodes, `","`)}, {"[rules.yaml]", "[" + rules + "]"},
		{"_interval: 15s", "_interval: 1s"}, {"tidemark.key", s.metricsKey},
		{"authorization: {credentials_file: shards.token}", "scheme: http"},
	} {
		require.Contains(t, config, change[0])
		config = strings.ReplaceAll(config, change[0], change[1])
	}
	config += fmt.Sprintf(`
  - job_name: tidemark-tls
    scheme: https
    tls_config: {insecure_skip_verify: true}
    authorization: {credentials_file: %s}
    static_configs: [{targets: ["%s"]}]
`, s.metricsKey, s.adminTLS)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "prometheus.yaml"), []byte(config), 0o600))
	address, _ := run(t, regexp.MustCompile(`msg="Listening on" address=(\S+)`), "prometheus",
		append([]string{"--config.file=" + filepath.Join(dir, "prometheus.yaml"), "--storage.tsdb.path=" +
			filepath.Join(dir, "tsdb"), "--web.listen-address=127.0.0.1:0"}, flags...)...)
	p := prometheus{t: t, url: "http://" + address}
	require.Eventually(t, p.ready, patience, 50*time.Millisecond)
	return p
}

// ready reports whether the API answers.
func (p prometheus) ready() bool {
	var data any
	return p.get("/api/v1/query", url.Values{"query": {"1"}}, &data) == nil
}

// get calls the API, and decodes the data of its answer.
func (p prometheus) get(path string, parameters url.Values, data any) error {
	request, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, p.url+path+"?"+parameters.Encode(), nil)
	require.NoError(p.t, err)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	var body struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(answer.Body).Decode(&body); err != nil {
		return fmt.Errorf("%s: %w", answer.Status, err)
	}
	if body.Status != "success" {
		return fmt.Errorf("%s: %s", answer.Status, body.Error)
	}
	return json.Unmarshal(body.Data, data)
}

type labelSet map[string]string

// series returns the labels of all series that a selector matches.
func (p prometheus) series(selector string) (all []labelSet, err error) {
	err = p.get("/api/v1/series", url.Values{"match[]": {selector}}, &all)
	return all, err
}

// query returns the labels and the values of the result of an expression.
func (p prometheus) query(expr string) (all []labelSet, values []string, err error) {
	var data struct {
		Result []struct {
			Metric labelSet
			Value  [2]any
		}
	}
	if err := p.get("/api/v1/query", url.Values{"query": {expr}}, &data); err != nil {
		return nil, nil, err
	}
	for _, one := range data.Result {
		all, values = append(all, one.Metric), append(values, fmt.Sprint(one.Value[1]))
	}
	return all, values, nil
}

// rules returns the health and the last error of each alert rule.
func (p prometheus) rules() (map[string]string, error) {
	var data struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError string }
		}
	}
	err := p.get("/api/v1/rules", nil, &data)
	found := map[string]string{}
	for _, g := range data.Groups {
		for _, r := range g.Rules {
			found[r.Name] = r.Health + r.LastError
		}
	}
	return found, err
}

// exemplars returns the trace IDs of the exemplars of the last minute.
func (p prometheus) exemplars(metric string) (ids []string) {
	var data []struct {
		Exemplars []struct{ Labels labelSet }
	}
	now := time.Now()
	require.NoError(p.t, p.get("/api/v1/query_exemplars", url.Values{"query": {metric},
		"start": {now.Add(-time.Minute).Format(time.RFC3339)}, "end": {now.Format(time.RFC3339)}}, &data))
	for _, series := range data {
		for _, one := range series.Exemplars {
			ids = append(ids, one.Labels["trace_id"])
		}
	}
	return ids
}
