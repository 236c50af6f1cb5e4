package matchmaking

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/tidemark-dev/tidemark/internal/bench/report"
	"github.com/tidemark-dev/tidemark/internal/bench/target"
	"github.com/tidemark-dev/tidemark/internal/load"
	"github.com/tidemark-dev/tidemark/openmatch"
)

// Takeovers ends the server that directs a queue, while pairs meet by way of another one.
func Takeovers(ctx context.Context, s target.Settings, r *report.Report) error {
	r.Printf("\n## Takeover\n\nOf two servers, the one that directs the queue ends. Pairs meet by way of the other one, one after the other: the time is the\n"+
		"longest that a pair took, of %d runs.\n\n| the director ends | a pair took | goal | |\n|---|---:|---:|---|\n", rounds)
	for _, end := range []struct {
		name   string
		signal syscall.Signal
		goal   time.Duration
	}{{"by SIGTERM", syscall.SIGTERM, 200 * time.Millisecond}, {"by SIGKILL", syscall.SIGKILL, 5 * time.Second}} {
		longest := time.Duration(0)
		for range rounds {
			took, err := takeOver(ctx, s, end.signal)
			if err != nil {
				return fmt.Errorf("a takeover after an end %s: %w", end.name, err)
			}
			longest = max(longest, took)
		}
		report.Progress("the director ends %s: a pair took %s", end.name, longest)
		r.Printf("| %s | %s | %s | %s |\n", end.name, report.Millis(longest), report.AtMost(end.goal), report.Verdict(longest <= end.goal))
	}
	return nil
}

// takeOver returns the longest time that a pair took after a signal to the director.
func takeOver(ctx context.Context, s target.Settings, signal syscall.Signal) (time.Duration, error) {
	u, err := target.Start(ctx, s.Binary)
	if err != nil {
		return 0, err
	}
	defer u.Stop()
	other, err := u.AddServer(ctx)
	if err != nil {
		return 0, err
	}
	servers := []*target.Process{u.Server, other}
	if err := meetAt(ctx, other); err != nil {
		return 0, err
	}
	directs := -1
	for i, server := range servers {
		directors, err := server.Labelled(ctx, "tidemark_director", "queue")
		if err != nil {
			return 0, err
		}
		if directors["default"] == 1 {
			directs = i
		}
	}
	if directs < 0 {
		return 0, fmt.Errorf("no server directs the queue")
	}
	director := servers[directs]
	left := slices.Delete(servers, directs, directs+1)[0]
	frontend, err := load.DialFrontend(left.Frontend)
	if err != nil {
		return 0, err
	}
	defer frontend.Close()
	ended := time.Now()
	go director.End(signal)
	longest := time.Duration(0)
	for time.Since(ended) < time.Second { // a director that stops may still match the first pairs
		began := time.Now()
		if _, err := meet(ctx, frontend, &openmatch.Ticket{}); err != nil {
			return 0, err
		}
		longest = max(longest, time.Since(began))
	}
	return longest, nil
}

// meetAt lets a pair meet.
func meetAt(ctx context.Context, server *target.Process) error {
	frontend, err := load.DialFrontend(server.Frontend)
	if err != nil {
		return err
	}
	defer frontend.Close()
	_, err = meet(ctx, frontend, &openmatch.Ticket{})
	return err
}
