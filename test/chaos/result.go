package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/test/chaos/oracle"
	"github.com/tidemark-dev/tidemark/test/report"
)

// result is the result of one scenario.
type result struct {
	Name       string
	Fault      string // what the scenario did
	Limits     limits
	Messages   oracle.MessageVerdict
	Tickets    oracle.TicketVerdict
	Producers  oracle.ProducerVerdict
	Requests   oracle.RequestVerdict
	Crashes    []string
	Complaints []string // of the scenario itself
	Measures   []string
	Broken     []string // why the run itself failed; empty: it did not
	Peak       int      // bytes, the largest resident memory of a service
	Took       time.Duration
}

// miB is 2^20 bytes.
const miB = 1 << 20

// Passed reports whether all promises to clients were kept.
func (r *result) Passed() bool { return len(r.Faults()) == 0 }

// Faults describes everything that went wrong.
func (r *result) Faults() []string {
	faults := slices.Clone(r.Broken)
	faults = append(faults, r.Crashes...)
	faults = append(faults, r.Complaints...)
	for _, c := range []struct {
		n    int
		what string
	}{
		{r.Messages.Lost, "published messages not delivered"},
		{r.Messages.Doubled, "messages delivered again after their acknowledgement, or with two clocks"},
		{r.Messages.Reordered, "messages delivered out of order"},
		{r.Messages.Wrong, "messages delivered with another clock than the publisher received"},
		{int(r.Messages.Expired), "messages expired"},
		{r.Producers.Lost, "publishes of producers not read, or read in part"},
		{r.Producers.Doubled, "publishes of producers read twice"},
		{r.Producers.Reordered, "publishes of producers read out of order"},
		{r.Producers.Outlived, "publishes of producers read after one of a higher epoch"},
		{r.Producers.Late, "publishes of producers read after the close"},
		{r.Producers.Wrong, "publishes of producers answered with other clocks"},
		{r.Producers.Unended, "readers not told the end of a channel"},
		{r.Tickets.TwoMatches, "tickets in two matches"},
		{r.Tickets.Stuck, "players that never received a match"},
		{r.Tickets.Ended, "tickets ended without a match"},
		{r.Tickets.Crowded, "matches with too many tickets"},
		{r.Tickets.Split, "matches of which a player was not notified"},
		{r.Tickets.Forgotten, "matches missing after a player was notified"},
	} {
		if c.n > 0 {
			faults = append(faults, fmt.Sprintf("%d %s", c.n, c.what))
		}
	}
	refused := slices.Concat(r.Messages.Refused, r.Producers.Refused, r.Tickets.Refused)
	faults = append(faults, counted("refused", refused)...)
	return append(faults, r.overLimits()...)
}

// counted returns some of the texts, each with the number of its occurrences.
func counted(what string, texts []string) []string {
	const limit = 4
	numbers := map[string]int{}
	for _, text := range texts {
		numbers[text]++
	}
	var all []string
	for text, n := range numbers {
		all = append(all, fmt.Sprintf("%d × %s: %s", n, what, text))
	}
	slices.Sort(all)
	if len(all) > limit {
		all = append(all[:limit], fmt.Sprintf("and %d other refused requests", len(all)-limit))
	}
	return all
}

func (r *result) overLimits() (faults []string) {
	l := r.Limits
	if l.Gap > 0 && r.Requests.Gap > l.Gap {
		faults = append(faults, fmt.Sprintf("no successful publish for %s, more than %s", report.Seconds(r.Requests.Gap),
			report.Seconds(l.Gap)))
	}
	if l.P99 > 0 && r.Requests.P99 > l.P99 {
		faults = append(faults, fmt.Sprintf("publish p99 of %s, more than %s", report.WholeMillis(r.Requests.P99),
			report.WholeMillis(l.P99)))
	}
	if l.NoErrors && r.Requests.Failed > 0 {
		faults = append(faults, fmt.Sprintf("%d requests failed: %v", r.Requests.Failed, r.Requests.Reasons))
	}
	if l.Memory > 0 && r.Peak > l.Memory {
		faults = append(faults, fmt.Sprintf("a service used %d MB of memory, more than %d MB", r.Peak/miB, l.Memory/miB))
	}
	return faults
}

// KeepLogs copies the logs of a failed scenario from one folder to a folder of its name in logs, unless logs is empty.
func (r *result) KeepLogs(logs, from string) {
	if r.Passed() || logs == "" {
		return
	}
	to := filepath.Join(logs, r.Name)
	err := os.RemoveAll(to)
	if err == nil {
		err = os.CopyFS(to, os.DirFS(from))
	}
	if err == nil {
		lines := slices.Concat(r.Faults(), r.Messages.Examples, r.Producers.Examples, r.Tickets.Examples)
		err = os.WriteFile(filepath.Join(to, "verdict.txt"), []byte(strings.Join(lines, "\n")+"\n"), 0o600)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos: keep the logs:", err)
	}
}

// The generated part of the page is between these lines.
const (
	beginMark = "<!-- chaos: `make chaos` writes this part -->"
	endMark   = "<!-- end of chaos -->"
)

// markdown returns the table of a run, and its failures. where is the duration of the run and the machine, failover the
// options of the services in failover scenarios.
func markdown(results []result, where, failover string) string {
	var b strings.Builder
	passed := 0
	for _, r := range results {
		if r.Passed() {
			passed++
		}
	}
	fmt.Fprintf(&b, "%d of %d scenarios passed, %s.\n", passed, len(results), where)
	fmt.Fprintf(&b, "Failover scenarios ran with `%s`.\n\n", failover)
	b.WriteString("| scenario | fault | messages: published, delivered | lost, duplicated, out of order | tickets " +
		"matched | in two matches, stuck " +
		"| longest gap | publish p99 | requests: tried, failed | services crashed, memory | verdict |\n" +
		"|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---|\n")
	for _, r := range results {
		b.WriteString(r.row())
	}
	for _, r := range results {
		if len(r.Measures) > 0 {
			fmt.Fprintf(&b, "\n`%s`: %s.\n", r.Name, strings.Join(r.Measures, "; "))
		}
	}
	if passed == len(results) {
		return b.String()
	}
	b.WriteString("\nWhat failed:\n\n")
	for _, r := range results {
		for _, fault := range r.Faults() {
			fmt.Fprintf(&b, "- `%s`: %s\n", r.Name, oneLine(fault))
		}
	}
	return b.String()
}

func (r *result) row() string {
	verdict := "passed"
	if !r.Passed() {
		verdict = "**failed**"
	}
	m, t, q := r.Messages, r.Tickets, r.Requests
	return fmt.Sprintf("| `%s` | %s | %d, %d | %d, %d, %d | %d | %d, %d | %s | %s | %d, %d | %d, %d MB | %s |\n",
		r.Name, r.Fault, m.Acknowledged, m.Delivered, m.Lost, m.Doubled+m.Wrong, m.Reordered, t.Matched,
		t.TwoMatches+t.Crowded, t.Stuck+t.Split+t.Forgotten, report.Seconds(q.Gap), report.WholeMillis(q.P99), q.Tries,
		q.Failed,
		len(r.Crashes), r.Peak/miB, verdict)
}

// oneLine returns text without line breaks.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
