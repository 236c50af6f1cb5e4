package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/test/chaos/oracle"
	"github.com/tidemark-dev/tidemark/test/report"
)

func TestFaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*result)
		want   string // empty: it passed
	}{
		"nothing":            {change: func(*result) {}},
		"lost":               {func(r *result) { r.Messages.Lost = 1 }, "1 published messages not delivered"},
		"doubled":            {func(r *result) { r.Messages.Doubled = 2 }, "2 messages delivered again"},
		"out of order":       {func(r *result) { r.Messages.Reordered = 1 }, "out of order"},
		"at another clock":   {func(r *result) { r.Messages.Wrong = 1 }, "another clock"},
		"expired":            {func(r *result) { r.Messages.Expired = 1 }, "expired"},
		"producer lost":      {func(r *result) { r.Producers.Lost = 1 }, "1 publishes of producers not read"},
		"producer doubled":   {func(r *result) { r.Producers.Doubled = 1 }, "read twice"},
		"producer reordered": {func(r *result) { r.Producers.Reordered = 1 }, "producers read out of order"},
		"outlived":           {func(r *result) { r.Producers.Outlived = 1 }, "after one of a higher epoch"},
		"late":               {func(r *result) { r.Producers.Late = 1 }, "after the close"},
		"differently":        {func(r *result) { r.Producers.Wrong = 1 }, "answered with other clocks"},
		"no end":             {func(r *result) { r.Producers.Unended = 1 }, "1 readers not told the end"},
		"producer refused":   {func(r *result) { r.Producers.Refused = []string{"a gap"} }, "1 × refused: a gap"},
		"two matches":        {func(r *result) { r.Tickets.TwoMatches = 1 }, "1 tickets in two matches"},
		"stuck":              {func(r *result) { r.Tickets.Stuck = 1 }, "1 players that never received a match"},
		"ended":              {func(r *result) { r.Tickets.Ended = 1 }, "ended without a match"},
		"crowded":            {func(r *result) { r.Tickets.Crowded = 1 }, "too many tickets"},
		"split":              {func(r *result) { r.Tickets.Split = 1 }, "was not notified"},
		"forgotten":          {func(r *result) { r.Tickets.Forgotten = 1 }, "missing"},
		"refused":            {func(r *result) { r.Tickets.Refused = []string{"500"} }, "1 × refused: 500"},
		"crashed":            {func(r *result) { r.Crashes = []string{"service-0 exited"} }, "exited"},
		"complaint":          {func(r *result) { r.Complaints = []string{"ready"} }, "ready"},
		"broken":             {func(r *result) { r.Broken = []string{"no Redis"} }, "no Redis"},
		"gap":                {func(r *result) { r.Requests.Gap = 3 * time.Second }, "no successful publish for 3.0 s"},
		"slow":               {func(r *result) { r.Requests.P99 = time.Second }, "publish p99 of 1000 ms"},
		"failed":             {func(r *result) { r.Requests.Failed = 1 }, "1 requests failed"},
		"memory":             {func(r *result) { r.Peak = 3 * miB }, "3 MB of memory"},
		"more than no limit": {change: func(r *result) { r.Limits = limits{}; r.Requests.Failed, r.Peak = 9, 9*miB }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := result{Name: "s", Limits: limits{
				Gap: 2 * time.Second, P99: 100 * time.Millisecond, NoErrors: true, Memory: 2 * miB,
			}}
			c.change(&r)
			text := markdown([]result{r}, "in a test", "")
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
	r := result{Messages: messages.Verdict()}
	require.False(t, r.Passed())
}

func TestTheDocumentedPageHasItsMarks(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/reliability.md")
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "reliability.md")
	require.NoError(t, os.WriteFile(path, page, 0o600))
	require.NoError(t, report.WritePart(path, beginMark, endMark, "new\n"))
}
