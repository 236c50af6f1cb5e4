// Package report has the common parts of the pages with measurements: the description of the machine, quantiles and
// formats of times, verdicts, and the generated part of a page.
package report

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Machine describes this machine and its Redis.
func Machine(ctx context.Context) string {
	version := "redis"
	if out, err := exec.CommandContext(ctx, "redis-server", "--version").Output(); err == nil {
		version = strings.Join(strings.Fields(string(out))[:3], " ")
	}
	return fmt.Sprintf("%d cores, %s/%s, %s, %s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version(),
		version)
}

// Seconds formats a duration in seconds.
func Seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// Millis formats a duration in milliseconds.
func Millis(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000) }

// WholeMillis formats a duration in milliseconds without a fraction.
func WholeMillis(d time.Duration) string { return fmt.Sprintf("%d ms", d.Milliseconds()) }

// Tenths formats a duration in microseconds with a fraction.
func Tenths(d time.Duration) string { return fmt.Sprintf("%.1f µs", float64(d)/1000) }

// Micros formats a duration in microseconds.
func Micros(d time.Duration) string { return fmt.Sprintf("%.0f µs", float64(d)/1000) }

// Quantile returns the time within which this share of some times is, or 0 if there are none.
func Quantile(times []time.Duration, share float64) time.Duration {
	if len(times) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(times))
	return sorted[min(int(share*float64(len(sorted))), len(sorted)-1)]
}

// Verdict returns the word for whether a goal was reached.
func Verdict(good bool) string {
	if good {
		return "reached"
	}
	return "missed"
}

// Write writes a page.
func Write(path, text string) error {
	return os.WriteFile(path, []byte(text), 0o644) //nolint:gosec // a page of the docs
}

// WritePart replaces the part of a page between two lines, which it keeps.
func WritePart(path, begin, end, part string) error {
	page, err := os.ReadFile(path) //nolint:gosec // a page of the docs
	if err != nil {
		return err
	}
	from, to := bytes.Index(page, []byte(begin)), bytes.Index(page, []byte(end))
	if from < 0 || to < from {
		return errors.New(path + " has no lines between which to write")
	}
	return Write(path, string(page[:from])+begin+"\n"+part+string(page[to:]))
}
