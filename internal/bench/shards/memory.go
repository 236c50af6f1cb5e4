package shards

import (
	"context"
	"errors"
	"os"
	"strconv"

	"github.com/tidemark-dev/tidemark/internal/bench/report"
	"github.com/tidemark-dev/tidemark/internal/bench/target"
)

// manyEntries are what one node holds while its memory is measured.
const manyEntries = 1_000_000

// measureMemory compares the memory of a node that has many entries with that of one that has few.
func measureMemory(ctx context.Context, _ target.Settings, u *target.Target, r *report.Report) error {
	few, err := memoryOf(ctx, u, "few")
	if err != nil {
		return err
	}
	if err := fill(ctx, u, manyEntries); err != nil {
		return err
	}
	many, err := memoryOf(ctx, u, "many")
	if err != nil {
		return err
	}
	keys := 0
	for i := entries; i < manyEntries; i++ {
		keys += len(strconv.Itoa(i))
	}
	const added = manyEntries - entries
	each := float64(keys)/added + float64(len(value))
	live, resident := (many.live-few.live)/added-each, (many.resident-few.resident)/added-each
	r.Printf("\n| entries of a node | key and value | memory above them, as the garbage collector leaves it | goal | | resident |\n|---:|---:|---:|---:|---|---:|\n")
	r.Printf("| %d | %.1f bytes | %.1f bytes | ≤ %d bytes | %s | %.1f bytes |\n", manyEntries, each, live, bytesOfEntry, report.Verdict(live <= bytesOfEntry), resident)
	return nil
}

// memory is what a process has, in bytes.
type memory struct{ live, resident float64 }

// memoryOf returns the memory of a node that has everything. Go collects its garbage often, so that little of it is resident, and once
// more after all is loaded.
func memoryOf(ctx context.Context, u *target.Target, dc string) (m memory, err error) {
	if err := os.Setenv("GOGC", "10"); err != nil {
		return m, err
	}
	all, err := start(ctx, u, dc, 1)
	if err := errors.Join(err, os.Unsetenv("GOGC")); err != nil {
		return m, err
	}
	defer all.end()
	if err := all.awaitReady(ctx); err != nil {
		return m, err
	}
	if err := awaitCollection(ctx, all); err != nil {
		return m, err
	}
	if m.live, err = all[0].Live(ctx); err == nil {
		m.resident, err = all[0].Metric(ctx, "process_resident_memory_bytes")
	}
	return m, err
}

// awaitCollection reads from a node until it has collected its garbage.
func awaitCollection(ctx context.Context, all nodes) (err error) {
	c, err := startClient(ctx, all)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.end()) }()
	loaded, err := all[0].Metric(ctx, "go_memstats_last_gc_time_seconds")
	if err != nil {
		return err
	}
	for last := loaded; last == loaded; {
		if _, err := c.carryOut(order{Callers: callers, For: readTime / 10}); err != nil {
			return err
		}
		if last, err = all[0].Metric(ctx, "go_memstats_last_gc_time_seconds"); err != nil {
			return err
		}
	}
	return nil
}
