package shards

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/tidemark-dev/tidemark/internal/bench/report"
	"github.com/tidemark-dev/tidemark/internal/bench/target"
)

// measureGrowth reads from data centres of more and more nodes, each of which has a smaller part.
func measureGrowth(ctx context.Context, _ target.Settings, u *target.Target, r *report.Report) error {
	r.Printf("\nOne data centre of more and more nodes, each with its part of the entries. Nodes and clients share %d cores, so that the rate doesn't grow as on\n"+
		"machines of their own. The last column is what the nodes could answer with a core each, at what a key costs them here. A call costs more than its\n"+
		"keys: Gets must grow with the nodes, or there must be more of them at a time, for the capacity to do so.\n\n"+
		"| nodes | keys of a Get | keys/s here | nodes | client | CPU for a key: nodes | client | on paper |\n|---:|---:|---:|---:|---:|---:|---:|---:|\n", runtime.NumCPU())
	for _, n := range []int{1, 2, 4, 8} {
		if err := measureSize(ctx, u, r, n); err != nil {
			return fmt.Errorf("%d nodes: %w", n, err)
		}
	}
	return nil
}

func measureSize(ctx context.Context, u *target.Target, r *report.Report, n int) (err error) {
	all, err := start(ctx, u, fmt.Sprintf("of-%d", n), n)
	if err != nil {
		return err
	}
	defer all.end()
	if err := all.awaitReady(ctx); err != nil {
		return err
	}
	c, err := startClient(ctx, all)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.end()) }()
	if _, err := c.carryOut(order{Callers: callers, For: readTime / 4}); err != nil {
		return err
	}
	for _, keys := range slices.Compact([]int{keysOfGet, n * keysOfGet}) {
		found, err := readFrom(c, order{Keys: keys, Callers: callers, For: readTime / 2}, all.cpu)
		if err != nil {
			return err
		}
		ofNodes, ofClient := found.nodes.Seconds()/found.got(), found.CPU.Seconds()/found.got()
		share := func(used time.Duration) float64 {
			return 100 * used.Seconds() / found.For.Seconds() / float64(runtime.NumCPU())
		}
		r.Printf("| %d | %d | %.0f | %.0f%% | %.0f%% | %.2f µs | %.2f µs | %.0f keys/s |\n", n, keys, found.perSecond(), share(found.nodes), share(found.CPU),
			ofNodes*1e6, ofClient*1e6, float64(n)/ofNodes)
	}
	return nil
}
