package main

import (
	"fmt"
	"strings"

	"github.com/tidemark-dev/tidemark/test/report"
)

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
