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

// page is the report of the benchmarks.
type page struct {
	of      string // commit, date and machine
	started time.Time
	text    strings.Builder
}

// runLimit is the longest time of a whole run, from the project's goals.
const runLimit = 40 * time.Minute

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

// markdown returns the page.
func (p *page) markdown() string {
	took := time.Since(p.started)
	return fmt.Sprintf("# Benchmarks\n\nWritten by `make bench` %s,\nin %.0f minutes (goal ≤ %.0f, %s).\n%s", p.of,
		took.Minutes(), runLimit.Minutes(), report.Verdict(took <= runLimit), p.text.String())
}

// printf adds Markdown.
func (p *page) printf(format string, args ...any) { fmt.Fprintf(&p.text, format, args...) }

// section begins a section.
func (p *page) section(heading string) { p.printf("\n## %s\n\n", heading) }

// table begins a table. The names of its columns are separated by " | "; a column whose name ends with a colon is aligned
// to the right.
func (p *page) table(columns string) {
	names, lines := "|", "|"
	for name := range strings.SplitSeq(columns, " | ") {
		line := "---|"
		if strings.HasSuffix(name, ":") {
			name, line = strings.TrimSuffix(name, ":"), "---:|"
		}
		names, lines = names+" "+name+" |", lines+line
	}
	p.printf("%s\n%s\n", names, lines)
}

// row adds a row to the last table, and prints it. A number is rounded, a time is in milliseconds, and a bool says whether
// a goal was reached.
func (p *page) row(cells ...any) {
	texts := make([]string, len(cells))
	for i, cell := range cells {
		switch c := cell.(type) {
		case bool:
			texts[i] = report.Verdict(c)
		case float64:
			texts[i] = fmt.Sprintf("%.0f", c)
		case time.Duration:
			texts[i] = report.Millis(c)
		default:
			texts[i] = fmt.Sprint(c)
		}
	}
	row := "| " + strings.Join(texts, " | ") + " |"
	p.printf("%s\n", row)
	progress("%s", row)
}

// pair is one measurement of a figure and of its floor: CPU time.
type pair struct{ ours, floor time.Duration }

func (p pair) ratio() float64 { return float64(p.ours) / float64(p.floor) }

// compared adds a row with the medians of pairs, and of their ratios.
func (p *page) compared(name string, pairs []pair, limit float64) {
	ours, floor, ratio := medians(pairs)
	p.row(name, report.Tenths(ours), report.Tenths(floor), fmt.Sprintf("%.2f", ratio), fmt.Sprintf("≤ %.1f", limit),
		ratio <= limit)
}

// medians returns the medians of figures, and of their ratios to the floors.
func medians(pairs []pair) (ours, floor time.Duration, ratio float64) {
	return median(pairs, func(p pair) time.Duration { return p.ours }),
		median(pairs, func(p pair) time.Duration { return p.floor }), median(pairs, pair.ratio)
}

// turns measures each of some ways once in each round, and returns the results of each way.
func turns[W, R any](rounds int, ways []W, measure func(round int, way W) R) [][]R {
	results := make([][]R, len(ways))
	for round := range rounds {
		for i, way := range ways {
			results[i] = append(results[i], measure(round, way))
		}
	}
	return results
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

// kilobytes formats a number of bytes.
func kilobytes(bytes float64) string { return fmt.Sprintf("%.1f KB", bytes/1000) }
