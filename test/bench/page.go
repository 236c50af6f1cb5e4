package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/test/report"
)

// page is the report of the benchmarks: the table of figures against a floor, followed by the other results.
type page struct {
	machine string
	rows    strings.Builder // of the first table
	text    strings.Builder
}

// newPage returns an empty page that names this machine.
func newPage(ctx context.Context) *page { return &page{machine: report.Machine(ctx)} }

// pair is one measurement of a figure and of its floor, in seconds of CPU time.
type pair struct{ ours, floor float64 }

// medians returns the medians of figures, and of their ratios to the floors.
func medians(pairs []pair) (ours, floor, ratio float64) {
	var all [3][]float64
	for _, p := range pairs {
		all[0], all[1], all[2] = append(all[0], p.ours), append(all[1], p.floor), append(all[2], p.ours/p.floor)
	}
	return median(all[0]), median(all[1]), median(all[2])
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
	head := "# Benchmarks\n\nWritten by `make bench`, on " + p.machine + ".\n"
	if p.rows.Len() > 0 {
		head += "\n" + requestsIntro + "\n| figure | Tidemark | floor | ratio | goal | |\n|---|---:|---:|---:|---:|---|\n"
	}
	return head + p.rows.String() + p.text.String()
}

// progress prints a result while the benchmarks run.
func progress(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// median returns the median of values, which it sorts.
func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// medianTime returns the median of seconds as a duration.
func medianTime(seconds []float64) time.Duration {
	return time.Duration(median(seconds) * float64(time.Second))
}

// quantile returns a quantile of sorted times.
func quantile(took []time.Duration, q float64) time.Duration {
	if len(took) == 0 {
		return 0
	}
	return took[int(float64(len(took))*q)]
}

// atMost returns a goal for a time, or nothing for 0.
func atMost(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return "≤ " + report.Millis(d)
}

// atMostMicros is atMost in microseconds.
func atMostMicros(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return "≤ " + report.Micros(d)
}

// goal returns a goal for a number after its sign, or nothing for 0.
func goal(sign string, n float64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%s %g", sign, n)
}
