// Command bench measures Tidemark against floors taken in the same run, and writes docs/benchmarks.md.
//
// Most figures are ratios or counts, since machines differ and are noisy: CPU time of Redis per publish against the
// same script under redis-benchmark, CPU time of the server per request against a bare net/http handler that
// answers the same bytes, what it costs to wake many waiting subscribers, and tickets that are matched against bare
// handlers of the same library. Everything runs on this machine, on loopback.
//
// With -frontend it measures an Open Match frontend that runs already: see CONTRIBUTING.md.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/tidemark-dev/tidemark/internal/bench/channels"
	"github.com/tidemark-dev/tidemark/internal/bench/floor"
	"github.com/tidemark-dev/tidemark/internal/bench/idle"
	"github.com/tidemark-dev/tidemark/internal/bench/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/bench/records"
	"github.com/tidemark-dev/tidemark/internal/bench/report"
	"github.com/tidemark-dev/tidemark/internal/bench/shards"
	"github.com/tidemark-dev/tidemark/internal/bench/target"
	"github.com/tidemark-dev/tidemark/internal/load"
)

// parts are what is measured, in the order of the page.
var parts = []struct {
	name    string
	measure func(context.Context, target.Settings, *report.Report) error
}{
	{"requests", channels.Requests}, {"many", channels.Many}, {"credentials", channels.Credentials}, {"fanout", channels.FanOut}, {"waiting", channels.Waiting}, {"large", channels.Large},
	{"duels", matchmaking.Duels}, {"crowds", matchmaking.Crowds}, {"takeovers", matchmaking.Takeovers}, {"cluster", matchmaking.Cluster},
	{"idle", idle.Measure}, {"abuse", idle.Abuse}, {"records", records.Measure}, {"shards", shards.Measure},
}

// options are the command line.
type options struct {
	target.Settings
	out   string          // file for the report; empty: none
	only  string          // the part to measure; empty: all
	load  frontends       // to measure instead
	floor floor.Addresses // of a floor to run instead, in a process of its own
	loads string          // the Redis of callers of a cache to run instead, in a process of its own
	reads string          // clients of shards to run instead, in a process of its own
}

func main() {
	var o options
	flag.StringVar(&o.Binary, "tidemark", "bin/tidemark", "the binary to measure")
	flag.StringVar(&o.out, "out", "docs/benchmarks.md", "file to write the report to; empty: none")
	flag.IntVar(&o.Rounds, "rounds", 5, "how often each pair is measured; the medians are reported")
	flag.IntVar(&o.Requests, "requests", 20000, "requests in a round")
	flag.StringVar(&o.only, "only", "", "measure one part: requests, many, credentials, fanout, waiting, large, duels, crowds, takeovers, cluster, idle, abuse, records or shards; nothing is written")
	flag.StringVar(&o.floor.HTTP, "floor", "", "serve the bare handler at this address; used by bench itself")
	flag.StringVar(&o.floor.Frontend, "floor-frontend", "", "serve the bare frontend at this address; used by bench itself")
	flag.StringVar(&o.loads, "loads", "", "load a value through a cache in the Redis at this URL; used by bench itself")
	flag.StringVar(&o.reads, "shards", "", "read from the nodes that this JSON text names; used by bench itself")
	flag.StringVar(&o.load.addresses, "frontend", "", "measure these Open Match frontends instead, host:port separated by commas; nothing is written")
	flag.IntVar(&o.load.Count, "players", 64, "with -frontend: players who have a ticket at the same time")
	flag.IntVar(&o.load.Share, "share", load.DefaultShare, "with -frontend: players that share a connection")
	flag.Float64Var(&o.load.Rate, "rate", 0, "with -frontend: tickets offered a second; 0: each player begins again at once")
	flag.DurationVar(&o.load.Warmup, "warmup", time.Second, "with -frontend: time before tickets are counted")
	flag.DurationVar(&o.load.Window, "duration", 10*time.Second, "with -frontend: time in which tickets are counted")
	flag.StringVar(&o.load.queues, "queues", "", "with -frontend: Tidemark's queues in which tickets are created, separated by commas")
	flag.StringVar(&o.load.pids, "pid", "", "with -frontend: IDs of processes whose CPU time per ticket is shown, separated by commas")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	if o.floor.HTTP != "" {
		return floor.Serve(ctx, o.floor)
	}
	if o.loads != "" {
		return records.CallAtOnce(ctx, o.loads)
	}
	if o.reads != "" {
		return shards.RunClients(ctx, o.reads)
	}
	debug.SetGCPercent(400) // the load costs as little as it can, since it shares the cores with what is measured
	if o.load.addresses != "" {
		return measureFrontend(ctx, o.load)
	}
	r := report.New(ctx)
	for _, part := range parts {
		if o.only != "" && o.only != part.name {
			continue
		}
		if err := part.measure(ctx, o.Settings, r); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	text := r.Markdown(channels.Intro)
	fmt.Print(text)
	if o.out == "" || o.only != "" {
		return nil
	}
	return os.WriteFile(o.out, []byte(text), 0o644) //nolint:gosec // a page of the docs
}
