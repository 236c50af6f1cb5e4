// Command bench measures Tidemark against floors taken in the same run, and writes docs/benchmarks.md.
//
// Most figures are ratios or counts, since machines differ and are noisy: CPU time of Redis per publish against the
// same script under redis-benchmark, CPU time of the server per request against a bare net/http handler that returns
// the same bytes, the cost of waking many waiting subscribers, and the rate of matched tickets against bare handlers of
// the same library. Everything runs on this machine, on loopback.
//
// With -frontend it measures a running Open Match frontend: see CONTRIBUTING.md.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/tidemark-dev/tidemark/test/launch"
	"github.com/tidemark-dev/tidemark/test/report"
)

// parts are the measurements, in the order of the page, each with the heading of its section.
var parts = []struct {
	name, heading string
	measure       func(*bench)
}{
	{"requests", "Single requests", requests},
	{"many", "Fetching from many channels", many},
	{"jetstream", "Publishes over WebSockets and NATS JetStream", jetstream},
	{"durable", "Durable Streams and their reference server", durableStreams},
	{"credentials", "What a credential costs", credentials},
	{"fanout", "Many subscribers waiting on one channel", fanOut},
	{"waiting", "Memory of fetches that wait", waiting},
	{"streams", "Streams", measureStreams},
	{"large", "Small publishes beside large fetches", large},
	{"duels", "Matchmaking", duels},
	{"crowds", "Many tickets that wait", crowds},
	{"directors", "Queues directed by their users", directors},
	{"takeovers", "Takeover", takeovers},
	{"cluster", "On a Cluster", cluster},
	{"idle", "What is idle", idle},
	{"abuse", "Memory under rapid reset", abuse},
	{"records", "Records", measureRecords},
	{"shards", "Shards", measureShards},
	{"sizing", "Estimates", measureSizing},
}

// partNames returns the names of all parts.
func partNames() string {
	names := make([]string, len(parts))
	for i, part := range parts {
		names[i] = part.name
	}
	return strings.Join(names, ", ")
}

// options are the command line.
type options struct {
	settings
	out   string         // file for the report; empty: none
	only  string         // the part to measure; empty: all
	load  frontends      // to measure instead
	floor floorAddresses // of a floor to run instead, in a process of its own
	reads string         // clients of shards to run instead, in a process of its own
}

func main() {
	var o options
	flag.StringVar(&o.binary, "tidemark", "bin/tidemark", "the binary to measure")
	flag.StringVar(&o.against, "against", "", "the binary of an earlier release, for requests; empty: none")
	flag.StringVar(&o.out, "out", "docs/benchmarks.md", "file to write the report to; empty: none")
	flag.IntVar(&o.rounds, "rounds", 5, "how often each pair is measured; the medians are reported")
	flag.IntVar(&o.requests, "requests", 20000, "requests in a round")
	flag.StringVar(&o.only, "only", "", "measure one part, and write nothing: "+partNames())
	flag.StringVar(&o.floor.http, "floor", "", "serve the bare handler at this address; used by bench itself")
	flag.StringVar(&o.floor.grpc, "floor-frontend", "", "serve the bare frontend at this address; used by bench itself")
	flag.StringVar(&o.reads, "shards", "", "read from the nodes that this JSON text names; used by bench itself")
	flag.StringVar(&o.peers.mercure, "mercure", "", "a program of Mercure to measure beside; empty: none")
	flag.StringVar(&o.peers.minimatch, "minimatch", "", "a program that serves minimatch to measure beside; empty: none")
	o.load.flags()
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	switch {
	case o.floor.http != "":
		return serveFloor(ctx, o.floor)
	case o.reads != "":
		return runClients(ctx, o.reads)
	}
	debug.SetGCPercent(400) // the load shares the cores with the measured processes
	if o.load.addresses != "" {
		return measureFrontends(ctx, o.load)
	}
	p := newPage(ctx)
	for _, part := range parts {
		if o.only != "" && o.only != part.name {
			continue
		}
		b, started := &bench{Host: launch.NewHost(ctx, part.name), settings: o.settings, page: p}, time.Now()
		p.section(part.heading)
		b.Run(func() { part.measure(b) })
		progress("%s took %s", part.name, time.Since(started).Round(time.Second))
		if b.Failed() {
			return fmt.Errorf("%s: %s", part.name, strings.Join(b.Failures(), "; "))
		}
	}
	text := p.markdown()
	fmt.Print(text)
	if o.out == "" || o.only != "" {
		return nil
	}
	return report.Write(o.out, text)
}
