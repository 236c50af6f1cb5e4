// Command bench measures Tidemark against floors taken in the same run, and writes docs/benchmarks.md.
//
// All figures are ratios or counts, since machines differ and are noisy: CPU time of Redis per publish against the
// same script under redis-benchmark, CPU time of the server per request against a bare net/http handler that
// answers the same bytes, what it costs to wake many waiting subscribers, and tickets that are matched against bare
// handlers of the same library. Everything runs on this machine, on loopback.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
)

type settings struct {
	tidemark string // the binary under test
	out      string // file for the report; empty: none
	rounds   int    // how often each pair is measured
	requests int    // requests in a round
	only     string // the part to measure; empty: all
	floor    string // address of a floor server to run instead, in a process of its own
}

func main() {
	var s settings
	flag.StringVar(&s.tidemark, "tidemark", "bin/tidemark", "the binary to measure")
	flag.StringVar(&s.out, "out", "docs/benchmarks.md", "file to write the report to; empty: none")
	flag.IntVar(&s.rounds, "rounds", 5, "how often each pair is measured; the medians are reported")
	flag.IntVar(&s.requests, "requests", 20000, "requests in a round")
	flag.StringVar(&s.only, "only", "", "measure one part: publish, fetch, ack, next, empty, fanout, waiting, large, matchmaking, idle or abuse; nothing is written")
	flag.StringVar(&s.floor, "floor", "", "serve the bare handler at this address; used by bench itself")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, s); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, s settings) error {
	if s.floor != "" {
		return serveFloor(ctx, s.floor)
	}
	report, err := measure(ctx, s)
	if err != nil {
		return err
	}
	text := report.markdown()
	fmt.Print(text)
	if s.out == "" || s.only != "" {
		return nil
	}
	return os.WriteFile(s.out, []byte(text), 0o644) //nolint:gosec // a page of the docs
}

func measure(ctx context.Context, s settings) (*report, error) {
	under, err := start(ctx, s)
	if err != nil {
		return nil, err
	}
	defer under.Stop()
	r := newReport(ctx)
	for _, part := range []struct {
		name    string
		measure func(context.Context, settings, *setup, *report) error
	}{
		{"publish", measurePublish}, {"fetch", measureFetch}, {"ack", measureAck}, {"next", measureNext}, {"empty", measureEmptyFetch},
		{"fanout", measureFanOut}, {"waiting", measureWaiting}, {"large", measureLarge}, {"matchmaking", measureMatchmaking}, {"idle", measureIdle}, {"abuse", measureAbuse},
	} {
		if s.only != "" && s.only != part.name {
			continue
		}
		if err := part.measure(ctx, s, under, r); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// ignoreClosed drops the error of a server that was shut down.
func ignoreClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
