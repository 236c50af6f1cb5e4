package report

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// The generated part of the page is between these lines.
const (
	beginMark = "<!-- chaos: `make chaos` writes this part -->"
	endMark   = "<!-- end of chaos -->"
)

// Markdown returns the table of a run, and what failed. where is the duration of the run and the machine, failover the
// options of the services in failover scenarios.
func Markdown(results []Result, where, failover string) string {
	var b strings.Builder
	passed := 0
	for _, r := range results {
		if r.Passed() {
			passed++
		}
	}
	fmt.Fprintf(&b, "%d of %d scenarios passed, %s.\n", passed, len(results), where)
	fmt.Fprintf(&b, "Failover scenarios ran with `%s`.\n\n", failover)
	b.WriteString("| scenario | fault | messages: published, delivered | lost, duplicated, out of order | tickets matched | in two matches, stuck " +
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

func (r *Result) row() string {
	verdict := "passed"
	if !r.Passed() {
		verdict = "**failed**"
	}
	m, t, q := r.Messages, r.Tickets, r.Requests
	return fmt.Sprintf("| `%s` | %s | %d, %d | %d, %d, %d | %d | %d, %d | %s | %s | %d, %d | %d, %d MB | %s |\n",
		r.Name, r.Fault, m.Acknowledged, m.Delivered, m.Lost, m.Doubled+m.Wrong, m.Reordered, t.Matched,
		t.TwoMatches+t.Crowded, t.Stuck+t.Split+t.Forgotten, Seconds(q.Gap), Millis(q.P99), q.Tries, q.Failed,
		len(r.Crashes), r.Peak/MiB, verdict)
}

// oneLine returns text without line breaks.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// Machine describes this machine and its Redis.
func Machine(ctx context.Context) string {
	version := "redis"
	if out, err := exec.CommandContext(ctx, "redis-server", "--version").Output(); err == nil {
		version = strings.Join(strings.Fields(string(out))[:3], " ")
	}
	return fmt.Sprintf("%d cores, %s/%s, %s, %s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version(), version)
}

// WritePage replaces the generated part of a page.
func WritePage(path, part string) error {
	page, err := os.ReadFile(path) //nolint:gosec // a page of the docs
	if err != nil {
		return err
	}
	begin, end := bytes.Index(page, []byte(beginMark)), bytes.Index(page, []byte(endMark))
	if begin < 0 || end < begin {
		return errors.New(path + " has no lines between which to write")
	}
	text := string(page[:begin]) + beginMark + "\n" + part + string(page[end:])
	return os.WriteFile(path, []byte(text), 0o644) //nolint:gosec // a page of the docs
}
