package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/internal/chaos/oracle"
)

// result is the result of one scenario.
type result struct {
	scenario
	messages   oracle.MessageVerdict
	tickets    oracle.TicketVerdict
	requests   oracle.RequestVerdict
	crashes    []string
	complaints []string // of the scenario itself
	measures   []string
	broken     []string // why the run itself failed
	peak       int      // bytes, the largest resident memory of a service
	took       time.Duration
	judged     bool
}

// passed reports whether clients received what they are promised.
func (r *result) passed() bool { return len(r.faults()) == 0 }

// faults describes everything that went wrong.
func (r *result) faults() []string {
	faults := slices.Clone(r.broken)
	if !r.judged {
		return append(faults, "the scenario did not finish")
	}
	faults = append(faults, r.crashes...)
	faults = append(faults, r.complaints...)
	for _, c := range []struct {
		n    int
		what string
	}{
		{r.messages.Lost, "published messages not delivered"},
		{r.messages.Doubled, "messages delivered again after their acknowledgement, or with two clocks"},
		{r.messages.Reordered, "messages delivered out of order"},
		{r.messages.Wrong, "messages delivered with another clock than the publisher received"},
		{int(r.messages.Expired), "messages expired"},
		{r.tickets.TwoMatches, "tickets in two matches"},
		{r.tickets.Stuck, "players that never received a match"},
		{r.tickets.Ended, "tickets ended without a match"},
		{r.tickets.Crowded, "matches with too many tickets"},
		{r.tickets.Split, "matches of which a player was not notified"},
		{r.tickets.Forgotten, "matches missing after a player was notified"},
	} {
		if c.n > 0 {
			faults = append(faults, fmt.Sprintf("%d %s", c.n, c.what))
		}
	}
	faults = append(faults, counted("refused", slices.Concat(r.messages.Refused, r.tickets.Refused))...)
	return append(faults, r.overLimits()...)
}

// counted returns some of the texts, each with its number.
func counted(what string, texts []string) []string {
	const most = 4
	numbers := map[string]int{}
	for _, text := range texts {
		numbers[text]++
	}
	var all []string
	for text, n := range numbers {
		all = append(all, fmt.Sprintf("%d × %s: %s", n, what, text))
	}
	slices.Sort(all)
	if len(all) > most {
		all = append(all[:most], fmt.Sprintf("and %d other refused requests", len(all)-most))
	}
	return all
}

func (r *result) overLimits() (faults []string) {
	l := r.limits
	if l.gap > 0 && r.requests.Gap > l.gap {
		faults = append(faults, fmt.Sprintf("no successful publish for %s, more than %s", seconds(r.requests.Gap), seconds(l.gap)))
	}
	if l.p99 > 0 && r.requests.P99 > l.p99 {
		faults = append(faults, fmt.Sprintf("publish p99 of %s, more than %s", millis(r.requests.P99), millis(l.p99)))
	}
	if l.noErrors && r.requests.Failed > 0 {
		faults = append(faults, fmt.Sprintf("%d requests failed: %v", r.requests.Failed, r.requests.Reasons))
	}
	if l.memory > 0 && r.peak > l.memory {
		faults = append(faults, fmt.Sprintf("a service used %d MB of memory, more than %d MB", r.peak/mib, l.memory/mib))
	}
	return faults
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

func millis(d time.Duration) string { return fmt.Sprintf("%d ms", d.Milliseconds()) }

// keepLogs copies the logs of a failed scenario to the folder for them.
func (r *result) keepLogs(set settings, from string) {
	if r.passed() || set.logs == "" {
		return
	}
	to := filepath.Join(set.logs, r.name)
	err := os.RemoveAll(to)
	if err == nil {
		err = os.CopyFS(to, os.DirFS(from))
	}
	if err == nil {
		text := strings.Join(slices.Concat(r.faults(), r.messages.Examples, r.tickets.Examples), "\n") + "\n"
		err = os.WriteFile(filepath.Join(to, "verdict.txt"), []byte(text), 0o600)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos: keep the logs:", err)
	}
}
