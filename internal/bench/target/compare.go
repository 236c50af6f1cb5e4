package target

import (
	"context"
	"net/http"
	"strconv"

	"github.com/tidemark-dev/tidemark/internal/bench/report"
	"github.com/tidemark-dev/tidemark/internal/load"
)

// Compare sends the same requests to the server and, answered with the server's own last answer, to the floor.
func (u *Target) Compare(ctx context.Context, n int, next load.Maker) (report.Pair, error) {
	ours, last, err := u.MeasureServer(ctx, n, next)
	if err != nil {
		return report.Pair{}, err
	}
	floor, err := u.MeasureFloor(ctx, n, next, last)
	return report.Pair{Ours: ours, Floor: floor}, err
}

// MeasureServer returns the server's CPU seconds per request, and its last answer.
func (u *Target) MeasureServer(ctx context.Context, n int, next load.Maker) (seconds float64, last load.Answer, err error) {
	seconds, err = u.Server.cpu(ctx, n, func() error { last, err = load.Repeat(ctx, u.Server.HTTP, n, next); return err })
	return seconds, last, err
}

// MeasureFloor returns the CPU seconds per request of a bare handler that returns the same answer.
func (u *Target) MeasureFloor(ctx context.Context, n int, next load.Maker, last load.Answer) (float64, error) {
	put := load.Request(http.MethodPut, "/answer?status="+strconv.Itoa(last.Status), string(last.Body))
	if _, err := load.Once(ctx, u.Floor.HTTP, put); err != nil {
		return 0, err
	}
	return u.Floor.cpu(ctx, n, func() error { _, err := load.Repeat(ctx, u.Floor.HTTP, n, next); return err })
}

// cpu returns the CPU seconds of a process per request of a load.
func (p *Process) cpu(ctx context.Context, n int, load func() error) (float64, error) {
	before, err := p.Metric(ctx, "process_cpu_seconds_total")
	if err != nil {
		return 0, err
	}
	if err := load(); err != nil {
		return 0, err
	}
	after, err := p.Metric(ctx, "process_cpu_seconds_total")
	return (after - before) / float64(n), err
}
