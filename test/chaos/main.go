// Command chaos tests Tidemark under faults, and writes docs/reliability.md.
//
// A [scenario] starts a Redis and two services, as processes on loopback, and clients in this process (package load).
// While these run, it causes a fault: it kills and stops processes, cuts connections, fills Redis, and so on. Package
// oracle then compares the responses that the clients received with the promises of the service. Scenarios run one
// after the other. The exit status is 1 if any of them failed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/tidemark-dev/tidemark/test/report"
)

// settings are the command-line flags.
type settings struct {
	tidemark string // the binary under test
	out      string // page for the table; empty: none
	only     string // regular expression of scenarios; the page is not written
	logs     string // folder for the logs of failed scenarios; empty: none
	faketime string // path of libfaketime
	previous string // the binary of the previous release
	list     bool
	time     time.Duration // of the load in each scenario, at least
	rate     float64       // of the load, as a factor
	light    string        // URL of a service: this process is its light client
}

func main() {
	var s settings
	flag.StringVar(&s.tidemark, "tidemark", "bin/tidemark", "the binary to run")
	flag.StringVar(&s.out, "out", "docs/reliability.md", "page to write the table to; empty: none")
	flag.StringVar(&s.only, "run", "", "regular expression of the scenarios to run; nothing is written then")
	flag.StringVar(&s.logs, "logs", "bin/chaos", "folder for the logs of failed scenarios; empty: none")
	flag.StringVar(&s.faketime, "faketime", "", "path of libfaketime, for the scenarios in which clocks jump")
	flag.StringVar(&s.previous, "previous", "", "the binary of the previous release, for upgrades")
	flag.BoolVar(&s.list, "list", false, "list the scenarios and exit")
	flag.DurationVar(&s.time, "time", 12*time.Second, "minimum duration of the load in each scenario")
	flag.Float64Var(&s.rate, "rate", 1, "factor for the load")
	flag.StringVar(&s.light, "light", "", "be the light client of the service at this `URL`, for another chaos process")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	do := run
	if s.light != "" {
		do = func(ctx context.Context, s settings) error { return runLight(ctx, s.light, os.Stdin, os.Stdout) }
	}
	if err := do(ctx, s); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

// errFailed means that a scenario failed.
var errFailed = errors.New("a scenario failed")

func run(ctx context.Context, s settings) error {
	only, err := regexp.Compile(s.only)
	if err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	if s.tidemark, err = filepath.Abs(s.tidemark); err != nil { // services run in other folders
		return err
	}
	if s.previous != "" {
		if s.previous, err = filepath.Abs(s.previous); err != nil {
			return err
		}
	}
	chosen := scenarios(only)
	if s.list {
		for _, c := range chosen {
			fmt.Printf("%-20s %s\n", c.name, c.fault)
		}
		return nil
	}
	if s.rate <= 0 || len(chosen) == 0 {
		return errors.New("-rate is not positive, or no scenario has that name")
	}
	started := time.Now()
	var results []result
	for _, c := range chosen {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		r := perform(ctx, s, c)
		printResult(&r)
		results = append(results, r)
	}
	where := fmt.Sprintf("in %s, on %s", time.Since(started).Round(time.Second), report.Machine(ctx))
	part := markdown(results, where, strings.Join(waitForReplica, " "))
	fmt.Println(part)
	if s.out != "" && s.only == "" && ctx.Err() == nil {
		if err := report.WritePart(s.out, beginMark, endMark, part); err != nil {
			return err
		}
	}
	for _, r := range results {
		if !r.Passed() {
			return errFailed
		}
	}
	return ctx.Err()
}

// printResult reports the result of a scenario.
func printResult(r *result) {
	verdict := "passed"
	if !r.Passed() {
		verdict = "FAILED"
	}
	fmt.Fprintf(os.Stderr, "%-6s %-18s %3.0f s, %d messages, %d tickets, gap %s, p99 %s, %d of %d requests failed %v\n",
		verdict, r.Name,
		r.Took.Seconds(), r.Messages.Acknowledged, r.Tickets.Matched, report.Seconds(r.Requests.Gap),
		report.WholeMillis(r.Requests.P99),
		r.Requests.Failed, r.Requests.Tries, r.Requests.Reasons)
	for _, fault := range r.Faults() {
		fmt.Fprintln(os.Stderr, "       -", strings.Join(strings.Fields(fault), " "))
	}
}

// channelCount is how many channels the load uses.
const channelCount = 6

// channels returns the load on channels.
func (s settings) channels() channelLoad {
	return channelLoad{Channels: channelCount, Publishers: 2, Subscribers: 2, Pause: s.slower(30 * time.Millisecond)}
}

// players returns the load on queues: times twenty players.
func (s settings) players(times int) playerLoad {
	return playerLoad{Queues: []string{"duel", "squad", arena}, REST: 12 * times, GRPC: 8 * times,
		Pause: s.slower(200 * time.Millisecond)}
}

func (s settings) slower(d time.Duration) time.Duration { return time.Duration(float64(d) / s.rate) }
