package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/chaos/oracle"
)

func TestFaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*result)
		want   string // empty: it passed
	}{
		"nothing":            {change: func(*result) {}},
		"lost":               {func(r *result) { r.messages.Lost = 1 }, "1 published messages not delivered"},
		"doubled":            {func(r *result) { r.messages.Doubled = 2 }, "2 messages delivered again"},
		"out of order":       {func(r *result) { r.messages.Reordered = 1 }, "out of order"},
		"at another clock":   {func(r *result) { r.messages.Wrong = 1 }, "another clock"},
		"expired":            {func(r *result) { r.messages.Expired = 1 }, "expired"},
		"two matches":        {func(r *result) { r.tickets.TwoMatches = 1 }, "1 tickets in two matches"},
		"stuck":              {func(r *result) { r.tickets.Stuck = 1 }, "1 players that never received a match"},
		"ended":              {func(r *result) { r.tickets.Ended = 1 }, "ended without a match"},
		"crowded":            {func(r *result) { r.tickets.Crowded = 1 }, "too many tickets"},
		"split":              {func(r *result) { r.tickets.Split = 1 }, "was not notified"},
		"forgotten":          {func(r *result) { r.tickets.Forgotten = 1 }, "missing"},
		"refused":            {func(r *result) { r.tickets.Refused = []string{"500"} }, "1 × refused: 500"},
		"crashed":            {func(r *result) { r.crashes = []string{"service-0 exited"} }, "exited"},
		"complaint":          {func(r *result) { r.complaints = []string{"ready"} }, "ready"},
		"broken":             {func(r *result) { r.broken = []string{"no Redis"} }, "no Redis"},
		"not judged":         {func(r *result) { r.judged = false }, "did not finish"},
		"gap":                {func(r *result) { r.requests.Gap = 3 * time.Second }, "no successful publish for 3.0 s"},
		"slow":               {func(r *result) { r.requests.P99 = time.Second }, "publish p99 of 1000 ms"},
		"failed":             {func(r *result) { r.requests.Failed = 1 }, "1 requests failed"},
		"memory":             {func(r *result) { r.peak = 3 * mib }, "3 MB of memory"},
		"more than no limit": {change: func(r *result) { r.limits = limits{}; r.requests.Failed, r.peak = 9, 9*mib }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := result{judged: true, scenario: scenario{name: "s", limits: limits{
				gap: 2 * time.Second, p99: 100 * time.Millisecond, noErrors: true, memory: 2 * mib,
			}}}
			c.change(&r)
			text := markdown([]result{r}, "in a test")
			if c.want == "" {
				require.True(t, r.passed(), "%v", r.faults())
				require.Contains(t, text, "1 of 1 scenarios passed")
				require.NotContains(t, text, "**failed**")
				return
			}
			require.False(t, r.passed())
			require.Contains(t, strings.Join(r.faults(), "\n"), c.want)
			require.Contains(t, text, "0 of 1 scenarios passed")
			require.Contains(t, text, "**failed**")
			require.Contains(t, text, c.want)
		})
	}
}

func TestVerdictsOfTheOracleCount(t *testing.T) {
	t.Parallel()
	messages := oracle.NewMessages(oracle.Rules{})
	messages.Subscribed("c", "s")
	messages.Acknowledged("c", oracle.Message{Publisher: "p", Seq: 1}, 1)
	r := result{judged: true, messages: messages.Judge()}
	require.False(t, r.passed())
}

func TestWritePage(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "page.md")
	require.NoError(t, os.WriteFile(path, []byte("before\n"+beginMark+"\nold\n"+endMark+"\nafter\n"), 0o600))
	require.NoError(t, writePage(path, "new\n"))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "before\n"+beginMark+"\nnew\n"+endMark+"\nafter\n", string(text))
	require.NoError(t, os.WriteFile(path, []byte("no marks"), 0o600))
	require.Error(t, writePage(path, "new"))
}

func TestTheDocumentedPageHasItsMarks(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/reliability.md")
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "reliability.md")
	require.NoError(t, os.WriteFile(path, page, 0o600))
	require.NoError(t, writePage(path, "new\n"))
}

func TestScenariosHaveNamesOfTheirOwn(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, c := range scenarios(regexp.MustCompile("")) {
		require.Regexp(t, `^[a-z0-9-]+$`, c.name)
		require.False(t, seen[c.name], c.name)
		require.NotEmpty(t, c.fault, c.name)
		require.NotContains(t, c.fault, "|", c.name)
		require.NotNil(t, c.inject, c.name)
		require.NotZero(t, c.limits.gap, c.name)
		seen[c.name] = true
	}
	require.Len(t, scenarios(regexp.MustCompile("^redis-kill$")), 1)
}

// A scenario that cannot go on ends, is cleaned up, and has failed.
func TestHostEndsTheScenario(t *testing.T) {
	t.Parallel()
	h := &host{name: "h", ctx: context.Background()}
	var order []string
	h.run(func() {
		h.Cleanup(func() { order = append(order, "first") })
		h.Cleanup(func() {
			order = append(order, "second")
			h.Fatalf("in cleanup")
		})
		h.Fatalf("no %s", "Redis")
		order = append(order, "never")
	})
	require.Equal(t, []string{"second", "first"}, order)
	require.Equal(t, []string{"no Redis", "in cleanup"}, h.failed())
	require.True(t, h.Failed())
}
