package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/internal/bench/target"
	"github.com/tidemark-dev/tidemark/internal/load"
)

// frontends is the load on frontends that already run.
type frontends struct {
	addresses string // separated by commas; empty: measure Tidemark
	queues    string // separated by commas
	pids      string // of processes whose CPU time is shown, separated by commas
	load.Players
}

// measureFrontend prints what players of any Open Match frontend get.
func measureFrontend(ctx context.Context, f frontends) error {
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
			cpu, err := target.CPU(pid)
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
		fmt.Printf("process %d: %.0f µs of CPU time per ticket\n", pid, float64(used[i][1]-used[i][0])/1000/float64(len(result.Took)))
	}
	return nil
}
