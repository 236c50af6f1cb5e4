package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/redistest"
)

const operationsPage = "../../docs/operations.md"

// TestDocumentationOfOptions compares the options on the page with those of the program.
func TestDocumentationOfOptions(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(operationsPage)
	require.NoError(t, err)
	part := regexp.MustCompile(`(?s)(<!-- options: .*? -->\n)(.*)(<!-- end of options -->)`)
	require.Regexp(t, part, string(page))
	if *update {
		written := part.ReplaceAllStringFunc(string(page), func(old string) string {
			return part.FindStringSubmatch(old)[1] + optionTable() + part.FindStringSubmatch(old)[3]
		})
		require.NoError(t, os.WriteFile(operationsPage, []byte(written), 0o644))
		return
	}
	require.Equal(t, optionTable(), part.FindStringSubmatch(string(page))[2])
}

// TestDocumentationOfTheFile reads the YAML example of the page.
func TestDocumentationOfTheFile(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(operationsPage)
	require.NoError(t, err)
	example := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindStringSubmatch(string(page))
	require.NotNil(t, example)
	dir := t.TempDir()
	yaml := strings.ReplaceAll(example[1], "/run/secrets/redis", filepath.Join(dir, "redis"))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "redis"), []byte("secret\n"), 0o600))
	c, err := load(t, yaml, nil, nil)
	require.NoError(t, err)
	require.Len(t, c.Rules, 3)
	require.Equal(t, "mm1:", c.Redis.KeyPrefix)
}

// TestHelpNamesEverything finds every name of every option in the help text.
func TestHelpNamesEverything(t *testing.T) {
	t.Parallel()
	var help strings.Builder
	require.NoError(t, writeServeHelp(&help))
	words := strings.Join(strings.Fields(help.String()), " ")
	for _, o := range allOptions() {
		require.Contains(t, words, o.flag()+" "+o.kind+" "+o.help+" ("+o.env(), o.name)
	}
}

// TestDocumentationOfMetrics compares the tables of metrics on the page with what a service with two Redis registers.
func TestDocumentationOfMetrics(t *testing.T) {
	t.Parallel()
	channels, tickets := redistest.Start(t, redistest.Options{}), redistest.Start(t, redistest.Options{})
	c, err := load(t, "listen: 127.0.0.1:0\nredis: redis://"+channels.Addr()+"\nticketsRedis: redis://"+tickets.Addr(), nil, nil)
	require.NoError(t, err)
	registry, parts := prometheus.NewRegistry(), newLayers(t.Context())
	defer func() { require.NoError(t, parts.stop()) }()
	require.NoError(t, startParts(t.Context(), c, partNeeds{log: slog.New(slog.DiscardHandler), metrics: registry, parts: parts}))

	descriptions := make(chan *prometheus.Desc)
	go func() {
		registry.Describe(descriptions)
		close(descriptions)
	}()
	var registered []string
	name := regexp.MustCompile(`fqName: "(tidemark_\w+)".* constLabels: {(?:(\w+)=.*)?}, variableLabels: {(.*)}}$`)
	for d := range descriptions {
		if found := name.FindStringSubmatch(d.String()); found != nil {
			labels := strings.Trim(found[2]+","+found[3], ",")
			registered = append(registered, found[1]+strings.TrimSuffix("{"+labels+"}", "{}"))
		}
	}
	page, err := os.ReadFile(operationsPage)
	require.NoError(t, err)
	var documented []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(tidemark_[^`]*)` \\| (?:counter|gauge|histogram) \\|").FindAllStringSubmatch(string(page), -1) {
		documented = append(documented, row[1])
	}
	slices.Sort(registered) // each metric of Redis is there twice
	require.ElementsMatch(t, slices.Compact(registered), documented, "each metric has one row in %s", operationsPage)
}

// documentedRights is the ACL rule of the page, without its command and user.
func documentedRights(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile(operationsPage)
	require.NoError(t, err)
	rule := regexp.MustCompile(`(?m)^ACL SETUSER tidemark (.*)$`).FindSubmatch(page)
	require.NotNil(t, rule)
	return strings.Fields(string(rule[1]))
}
