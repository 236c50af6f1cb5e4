// Package matchmaking measures how fast tickets are matched, and what they cost.
package matchmaking

import (
	"context"

	"github.com/tidemark-dev/tidemark/internal/bench/report"
	"github.com/tidemark-dev/tidemark/internal/bench/target"
)

// rounds is how often each load is measured. The round with the median rate is reported.
const rounds = 3

// Measure measures players that look for opponents, pairs beside tickets that match none, and what happens when a director ends.
func Measure(ctx context.Context, s target.Settings, r *report.Report) error {
	for _, part := range []func(context.Context, target.Settings, *report.Report) error{
		measureDuels, measureCrowds, measureTakeovers, measureCluster,
	} {
		if err := part(ctx, s, r); err != nil {
			return err
		}
	}
	return nil
}
