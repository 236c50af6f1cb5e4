package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/chaos/oracle"
)

func TestFaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*Result)
		want   string // empty: it passed
	}{
		"nothing":            {change: func(*Result) {}},
		"lost":               {func(r *Result) { r.Messages.Lost = 1 }, "1 published messages not delivered"},
		"doubled":            {func(r *Result) { r.Messages.Doubled = 2 }, "2 messages delivered again"},
		"out of order":       {func(r *Result) { r.Messages.Reordered = 1 }, "out of order"},
		"at another clock":   {func(r *Result) { r.Messages.Wrong = 1 }, "another clock"},
		"expired":            {func(r *Result) { r.Messages.Expired = 1 }, "expired"},
		"two matches":        {func(r *Result) { r.Tickets.TwoMatches = 1 }, "1 tickets in two matches"},
		"stuck":              {func(r *Result) { r.Tickets.Stuck = 1 }, "1 players that never received a match"},
		"ended":              {func(r *Result) { r.Tickets.Ended = 1 }, "ended without a match"},
		"crowded":            {func(r *Result) { r.Tickets.Crowded = 1 }, "too many tickets"},
		"split":              {func(r *Result) { r.Tickets.Split = 1 }, "was not notified"},
		"forgotten":          {func(r *Result) { r.Tickets.Forgotten = 1 }, "missing"},
		"refused":            {func(r *Result) { r.Tickets.Refused = []string{"500"} }, "1 × refused: 500"},
		"crashed":            {func(r *Result) { r.Crashes = []string{"service-0 exited"} }, "exited"},
		"complaint":          {func(r *Result) { r.Complaints = []string{"ready"} }, "ready"},
		"broken":             {func(r *Result) { r.Broken = []string{"no Redis"} }, "no Redis"},
		"gap":                {func(r *Result) { r.Requests.Gap = 3 * time.Second }, "no successful publish for 3.0 s"},
		"slow":               {func(r *Result) { r.Requests.P99 = time.Second }, "publish p99 of 1000 ms"},
		"failed":             {func(r *Result) { r.Requests.Failed = 1 }, "1 requests failed"},
		"memory":             {func(r *Result) { r.Peak = 3 * MiB }, "3 MB of memory"},
		"more than no limit": {change: func(r *Result) { r.Limits = Limits{}; r.Requests.Failed, r.Peak = 9, 9*MiB }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := Result{Name: "s", Limits: Limits{
				Gap: 2 * time.Second, P99: 100 * time.Millisecond, NoErrors: true, Memory: 2 * MiB,
			}}
			c.change(&r)
			text := Markdown([]Result{r}, "in a test", "")
			if c.want == "" {
				require.True(t, r.Passed(), "%v", r.Faults())
				require.Contains(t, text, "1 of 1 scenarios passed")
				require.NotContains(t, text, "**failed**")
				return
			}
			require.False(t, r.Passed())
			require.Contains(t, strings.Join(r.Faults(), "\n"), c.want)
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
	r := Result{Messages: messages.Judge()}
	require.False(t, r.Passed())
}

func TestWritePage(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "page.md")
	require.NoError(t, os.WriteFile(path, []byte("before\n"+beginMark+"\nold\n"+endMark+"\nafter\n"), 0o600))
	require.NoError(t, WritePage(path, "new\n"))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "before\n"+beginMark+"\nnew\n"+endMark+"\nafter\n", string(text))
	require.NoError(t, os.WriteFile(path, []byte("no marks"), 0o600))
	require.Error(t, WritePage(path, "new"))
}

func TestTheDocumentedPageHasItsMarks(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/reliability.md")
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "reliability.md")
	require.NoError(t, os.WriteFile(path, page, 0o600))
	require.NoError(t, WritePage(path, "new\n"))
}
