// Package report is the page that the benchmarks write.
package report

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Report is the page: figures against a floor, and then what else the parts have written.
type Report struct {
	machine string
	rows    []row
	text    strings.Builder
}

// Pair is one measurement of a figure and of its floor, in seconds of CPU time.
type Pair struct{ Ours, Floor float64 }

type row struct {
	name        string
	ours, floor float64 // medians, seconds
	ratio       float64 // median of the rounds' ratios
	limit       float64
}

// New returns an empty page that names this machine.
func New(ctx context.Context) *Report {
	version := "redis"
	if out, err := exec.CommandContext(ctx, "redis-server", "--version").Output(); err == nil {
		version = strings.Join(strings.Fields(string(out))[:3], " ")
	}
	return &Report{machine: fmt.Sprintf("%d cores, %s/%s, %s, %s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version(), version)}
}

// Ratio adds the rounds of one figure to the first table.
func (r *Report) Ratio(name string, pairs []Pair, limit float64) {
	var ours, floors, ratios []float64
	for _, p := range pairs {
		ours, floors, ratios = append(ours, p.Ours), append(floors, p.Floor), append(ratios, p.Ours/p.Floor)
	}
	added := row{name: name, ours: Median(ours), floor: Median(floors), ratio: Median(ratios), limit: limit}
	r.rows = append(r.rows, added)
	Progress("%s: %.2f", name, added.ratio)
}

// Printf adds Markdown below the first table.
func (r *Report) Printf(format string, args ...any) { fmt.Fprintf(&r.text, format, args...) }

// Markdown returns the page. intro says what the first table has.
func (r *Report) Markdown(intro string) string {
	var b strings.Builder
	b.WriteString("# Benchmarks\n\nWritten by `make bench`, on " + r.machine + ".\n")
	if len(r.rows) > 0 {
		b.WriteString("\n" + intro + "\n| figure | Tidemark | floor | ratio | goal | |\n|---|---:|---:|---:|---:|---|\n")
	}
	for _, x := range r.rows {
		fmt.Fprintf(&b, "| %s | %.1f µs | %.1f µs | %.2f | ≤ %.1f | %s |\n", x.name, x.ours*1e6, x.floor*1e6, x.ratio, x.limit, Verdict(x.ratio <= x.limit))
	}
	return b.String() + r.text.String()
}

// Progress tells who watches a run what was found.
func Progress(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// Median returns the median of values, which it sorts.
func Median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// Millis returns a time in milliseconds.
func Millis(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000) }

// AtMost returns a goal for a time, or nothing for 0.
func AtMost(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return "≤ " + Millis(d)
}

// Micros returns a time in microseconds.
func Micros(d time.Duration) string { return fmt.Sprintf("%.0f µs", float64(d)/1000) }

// AtMostMicros is AtMost in microseconds.
func AtMostMicros(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return "≤ " + Micros(d)
}

// AtMostNumber returns a goal for a number, or nothing for 0.
func AtMostNumber(n float64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("≤ %g", n)
}

// AtLeast returns a goal for a number, or nothing for 0.
func AtLeast(n float64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("≥ %g", n)
}

// Verdict reports whether a goal was reached, in a word.
func Verdict(good bool) string {
	if good {
		return "reached"
	}
	return "missed"
}
