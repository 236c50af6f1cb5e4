package main

import (
	"bytes"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/certs/certstest"
	"github.com/tidemark-dev/tidemark/internal/lifecycle"
	"github.com/tidemark-dev/tidemark/internal/program/cli"
	"github.com/tidemark-dev/tidemark/internal/program/config"
	"github.com/tidemark-dev/tidemark/storage/redis/diagnose"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

const metricsPage = "../../docs/monitoring.md"

// TestDocumentationOfMetrics compares the tables of metrics on the page with the metrics registered by a service with
// two Redis, and by a node of shards. Dashboards show no others.
func TestDocumentationOfMetrics(t *testing.T) {
	t.Parallel()
	channels, tickets := redistest.Start(t, redistest.Options{}), redistest.Start(t, redistest.Options{})
	authority, err := certstest.New(t.TempDir())
	require.NoError(t, err)
	shown, err := authority.Issue("server")
	require.NoError(t, err)
	service, err := startHere(t, slog.DiscardHandler, "--redis="+channels.URL(), "--tickets-redis="+tickets.URL(),
		"--require-credentials", "--jwt-keys="+authority.File, "--tls-cert="+shown.Cert, "--tls-key="+shown.Key,
		"--key-metrics=session",
		`--channels=[{"pattern":"notifications:topic:.+","deliver":"copies"}]`, "--cache-shards=author")
	require.NoError(t, err)
	node := startNodeHere(t, "--redis="+channels.URL(), "--cache=author", "--dc=a")

	var registered []string
	known := make(map[string]bool)
	name, value := regexp.MustCompile(`fqName: "(\w+)".* constLabels: {(.*)}, variableLabels: {(.*)}}$`),
		regexp.MustCompile(`="[^"]*"`)
	for _, d := range append(described(service), described(node)...) {
		found := name.FindStringSubmatch(d)
		require.NotNil(t, found, d)
		known[found[1]] = true
		if strings.HasPrefix(found[1], "tidemark_") {
			labels := strings.Trim(value.ReplaceAllString(found[2], "")+","+found[3], ",")
			registered = append(registered, found[1]+strings.TrimSuffix("{"+labels+"}", "{}"))
		}
	}
	requireDashboards(t, known)
	page, err := os.ReadFile(metricsPage)
	require.NoError(t, err)
	var documented []string
	for _, row := range regexp.MustCompile(
		"(?m)^\\| `(tidemark_[^`]*)` \\| (?:counter|gauge|histogram) \\|").FindAllStringSubmatch(string(page), -1) {
		documented = append(documented, row[1])
	}
	slices.Sort(registered) // each metric of Redis is there twice
	require.ElementsMatch(t, slices.Compact(registered), documented, "each metric has one row in %s", metricsPage)
}

// TestMetricsOfIdleService: series are made when they are used, so the page of an idle service is small. Names and help
// follow the conventions of Prometheus.
func TestMetricsOfIdleService(t *testing.T) {
	t.Parallel()
	service, err := startHere(t, slog.DiscardHandler, "--redis="+redistest.Start(t, redistest.Options{}).URL())
	require.NoError(t, err)
	families, err := service.Gather()
	require.NoError(t, err)
	var page bytes.Buffer
	for _, f := range families {
		_, err := expfmt.MetricFamilyToText(&page, f)
		require.NoError(t, err)
	}
	require.Less(t, page.Len(), 30<<10)
	require.Contains(t, page.String(), "\ntidemark_redis_failures_total{code=\"OOM\",redis=\"channels\"} 0\n")
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	require.NoError(t, err)
	require.Empty(t, problems)
}

func described(r *prometheus.Registry) (all []string) {
	descriptions := make(chan *prometheus.Desc)
	go func() {
		r.Describe(descriptions)
		close(descriptions)
	}()
	for d := range descriptions {
		all = append(all, d.String())
	}
	return all
}

// requireDashboards checks that all metrics of the dashboards and the alert rules are among the given ones.
func requireDashboards(t *testing.T, shown map[string]bool) {
	t.Helper()
	files, err := filepath.Glob("../../deploy/grafana/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	files = append(files, "../../deploy/prometheus/rules.yaml")
	part := regexp.MustCompile("_(bucket|sum|count)$")
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, metric := range regexp.MustCompile(`\b(?:tidemark|process|go)_\w+`).FindAllString(string(content), -1) {
			require.True(t, shown[metric] || shown[part.ReplaceAllString(metric, "")], "nobody shows %s", metric)
		}
	}
}

// TestRunbook: the commands, options and log lines that docs/runbook.md names exist.
func TestRunbook(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/runbook.md")
	require.NoError(t, err)
	text := strings.Join(strings.Fields(string(page)), " ")
	commands := regexp.MustCompile("`tidemark ([^`]+)`").FindAllStringSubmatch(text, -1)
	require.NotEmpty(t, commands)
	for _, command := range commands {
		cmd, rest, err := newRoot(cli.Terminal{}).Find(strings.Fields(command[1]))
		require.NoError(t, err, command[0])
		require.False(t, cmd.Hidden || !cmd.Runnable(), command[0])
		for _, word := range rest {
			if name, ok := strings.CutPrefix(word, "--"); ok {
				require.NotNil(t, cmd.Flags().Lookup(name), command[0])
			}
		}
	}
	var code strings.Builder
	for _, folder := range []string{"cmd", "internal", "server", "storage"} {
		require.NoError(t, filepath.WalkDir("../../"+folder, func(path string, _ os.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			content, err := os.ReadFile(path)
			code.Write(content)
			return err
		}))
	}
	lines := regexp.MustCompile("line `([^`]+)`").FindAllStringSubmatch(text, -1)
	require.NotEmpty(t, lines)
	for _, line := range lines {
		require.Contains(t, code.String(), `"`+line[1]+`"`, "the program logs no such line")
	}
}

// startNodeHere starts the parts of a node of shards in this process, and stops them with the test.
func startNodeHere(t *testing.T, args ...string) *prometheus.Registry {
	t.Helper()
	flags := pflag.NewFlagSet("node", pflag.ContinueOnError)
	config.AddNodeFlags(flags)
	require.NoError(t, flags.Parse(append([]string{"--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0"}, args...)))
	c, err := config.LoadNode(flags, nil)
	require.NoError(t, err)
	registry, parts := prometheus.NewRegistry(), lifecycle.New(t.Context())
	t.Cleanup(func() { require.NoError(t, parts.Stop()) })
	require.NoError(t, startNode(t.Context(), c, partNeeds{log: slog.New(slog.DiscardHandler), metrics: registry,
		parts: parts}))
	return registry
}

// startHere starts the parts of a service in this process, and stops them with the test.
func startHere(t *testing.T, log slog.Handler, args ...string) (*prometheus.Registry, error) {
	t.Helper()
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	config.AddFlags(flags)
	require.NoError(t,
		flags.Parse(append([]string{"--listen=127.0.0.1:0", "--grpc-listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0"},
			args...)))
	c, err := config.Load(flags, nil)
	require.NoError(t, err)
	registry, parts := prometheus.NewRegistry(), lifecycle.New(t.Context())
	newLogBuffer(io.Discard).register(registry)
	registerBuild(registry)
	t.Cleanup(func() { require.NoError(t, parts.Stop()) })
	return registry, startParts(t.Context(), c, reloads{read: readAgain(flags, nil), level: new(slog.LevelVar),
		limit: reloadLimit}, partNeeds{log: slog.New(log), metrics: registry, parts: parts})
}

// TestDocumentedRights: the page has the rights that tidemark doctor looks for.
func TestDocumentedRights(t *testing.T) {
	t.Parallel()
	require.Equal(t, append([]string{"on", ">secret"}, diagnose.Rights("mm1:")...), documentedRights(t))
}

// documentedRights is the ACL rule of the page, without its command and user.
func documentedRights(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile("../../docs/deployment.md")
	require.NoError(t, err)
	rule := regexp.MustCompile(`(?m)^ACL SETUSER tidemark (.*)$`).FindSubmatch(page)
	require.NotNil(t, rule)
	return strings.Fields(string(rule[1]))
}
