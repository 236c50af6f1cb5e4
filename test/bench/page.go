package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/test/report"
)

// page is the report of the benchmarks: the table of figures against a floor, followed by the other results.
type page struct {
	of      string // commit, date and machine
	started time.Time
	rows    strings.Builder // of the first table
	text    strings.Builder
}

// runLimit is the longest time of a whole run, from the project's goals.
const runLimit = 40 * time.Minute

// requestsHeading is that of the first table.
const requestsHeading = "Single requests"

// newPage returns an empty page that names the commit, the date and this machine.
func newPage(ctx context.Context) *page {
	commit, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty", "--abbrev=8", "--exclude=*").Output()
	if err != nil {
		commit = []byte("unknown")
	}
	now := time.Now()
	return &page{started: now, of: fmt.Sprintf("at commit %s on %s, on %s", strings.TrimSpace(string(commit)),
		now.UTC().Format(time.DateOnly), report.Machine(ctx))}
}

// hasSection reports whether a page has a section with a heading.
func hasSection(page, heading string) bool { return strings.Contains(page, "\n## "+heading+"\n") }

// pair is one measurement of a figure and of its floor, in seconds of CPU time.
type pair struct{ ours, floor float64 }

// medians returns the medians of figures, and of their ratios to the floors.
func medians(pairs []pair) (ours, floor, ratio float64) {
	return median(pairs, func(p pair) float64 { return p.ours }), median(pairs, func(p pair) float64 { return p.floor }),
		median(pairs, func(p pair) float64 { return p.ours / p.floor })
}

// ratio adds the rounds of one figure to the first table.
func (p *page) ratio(name string, pairs []pair, limit float64) {
	ours, floor, ratio := medians(pairs)
	fmt.Fprintf(&p.rows, "| %s | %.1f µs | %.1f µs | %.2f | ≤ %.1f | %s |\n", name, ours*1e6, floor*1e6, ratio, limit,
		report.Verdict(ratio <= limit))
	progress("%s: %.2f", name, ratio)
}

// printf adds Markdown below the first table.
func (p *page) printf(format string, args ...any) { fmt.Fprintf(&p.text, format, args...) }

// markdown returns the page.
func (p *page) markdown() string {
	took := time.Since(p.started)
	head := fmt.Sprintf("# Benchmarks\n\nWritten by `make bench` %s,\nin %.0f minutes (goal ≤ %.0f, %s).\n", p.of,
		took.Minutes(), runLimit.Minutes(), report.Verdict(took <= runLimit))
	if p.rows.Len() > 0 {
		head += "\n## " + requestsHeading + "\n\n" + requestsIntro + "\n| figure | Tidemark | floor | ratio | goal | |\n|---|---:|---:|---:|---:|---|\n"
	}
	return head + p.rows.String() + p.text.String()
}

// progress prints a result while the benchmarks run.
func progress(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// medianRound returns the round with the median of a figure.
func medianRound[T any, F cmp.Ordered](rounds []T, figure func(T) F) T {
	sorted := slices.SortedFunc(slices.Values(rounds), func(a, b T) int { return cmp.Compare(figure(a), figure(b)) })
	return sorted[len(sorted)/2]
}

// median returns the median of a figure of rounds.
func median[T any, F cmp.Ordered](rounds []T, figure func(T) F) F {
	return figure(medianRound(rounds, figure))
}

// atMost returns a goal for a time, or nothing for 0.
func atMost(limit time.Duration, format func(time.Duration) string) string {
	if limit == 0 {
		return ""
	}
	return "≤ " + format(limit)
}

// goal returns a goal for a number after its sign, or nothing for 0.
func goal(sign string, n float64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%s %g", sign, n)
}

// micros formats seconds as microseconds.
func micros(seconds float64) string { return report.Micros(time.Duration(seconds * 1e9)) }
