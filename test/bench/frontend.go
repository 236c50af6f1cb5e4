package main

import (
	"context"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/test/launch"
	"github.com/tidemark-dev/tidemark/test/load"
)

// frontends is the load on frontends that already run.
type frontends struct {
	addresses string // separated by commas; empty: measure Tidemark
	queues    string // separated by commas
	pids      string // of processes whose CPU time is shown, separated by commas
	load.Players
}

// flags defines the flags of a load on frontends.
func (f *frontends) flags() {
	flag.StringVar(&f.addresses, "frontend", "",
		"measure these Open Match frontends instead, host:port separated by commas; nothing is written")
	flag.IntVar(&f.Count, "players", 64, "with -frontend: players who have a ticket at the same time")
	flag.IntVar(&f.Share, "share", load.DefaultShare, "with -frontend: players that share a connection")
	flag.Float64Var(&f.Rate, "rate", 0, "with -frontend: tickets offered a second; 0: each player begins again at once")
	flag.DurationVar(&f.Warmup, "warmup", time.Second, "with -frontend: time before tickets are counted")
	flag.DurationVar(&f.Window, "duration", 10*time.Second, "with -frontend: time in which tickets are counted")
	flag.StringVar(&f.queues, "queues", "",
		"with -frontend: Tidemark's queues in which tickets are created, separated by commas")
	flag.StringVar(&f.pids, "pid", "",
		"with -frontend: IDs of processes whose CPU time per ticket is shown, separated by commas")
}

// measureFrontends measures any Open Match frontends, and prints the results.
func measureFrontends(ctx context.Context, f frontends) error {
	f.Frontends = strings.Split(f.addresses, ",")
	if f.queues != "" {
		f.Queues = strings.Split(f.queues, ",")
	}
	var pids []int
	for text := range strings.SplitSeq(f.pids, ",") {
		if pid, err := strconv.Atoi(text); err == nil {
			pids = append(pids, pid)
		} else if text != "" {
			return fmt.Errorf("-pid: %w", err)
		}
	}
	used := make([][]time.Duration, len(pids))
	result, err := f.Run(ctx, func() error {
		for i, pid := range pids {
			cpu, err := launch.CPU(pid)
			if err != nil {
				return err
			}
			used[i] = append(used[i], cpu)
		}
		return nil
	})
	if err != nil {
		return err
	}
	fmt.Printf("%.0f tickets/s, p50 %.1f ms, p99 %.1f ms\n", result.PerSecond(),
		float64(result.Quantile(0.5))/1e6, float64(result.Quantile(0.99))/1e6)
	for i, pid := range pids {
		fmt.Printf("process %d: %.0f µs of CPU time per ticket\n", pid,
			float64(used[i][1]-used[i][0])/1000/float64(len(result.Took)))
	}
	return nil
}
