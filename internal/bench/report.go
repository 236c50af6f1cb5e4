package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/internal/bench/drive"
)

// What waiting may cost, from the project's goals.
const (
	lastLimit  = 150 * time.Millisecond
	bytesLimit = 25 * 1000
)

// report is what is printed and written to the docs.
type report struct {
	machine string
	rows    []row
	next    float64 // CPU seconds of Redis for a next of ten
	fanOuts []fanOut
	waiting []waiting
	large   large
	duels   []duels
	crowd   crowd
	idle    idle
	abuse   *abuse
}

type row struct {
	name        string
	ours, floor float64 // medians, seconds
	ratio       float64 // median of the rounds' ratios
	limit       float64
}

func newReport(ctx context.Context) *report {
	version := "redis"
	if out, err := exec.CommandContext(ctx, "redis-server", "--version").Output(); err == nil {
		version = strings.Join(strings.Fields(string(out))[:3], " ")
	}
	return &report{machine: fmt.Sprintf("%d cores, %s/%s, %s, %s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version(), version)}
}

// add takes the rounds of one figure.
func (r *report) add(name string, pairs []pair, limit float64) {
	var ours, floors, ratios []float64
	for _, p := range pairs {
		ours, floors, ratios = append(ours, p.ours), append(floors, p.floor), append(ratios, p.ours/p.floor)
	}
	added := row{name: name, ours: median(ours), floor: median(floors), ratio: median(ratios), limit: limit}
	r.rows = append(r.rows, added)
	fmt.Fprintf(os.Stderr, "%s: %.2f\n", name, added.ratio)
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

func (r *report) markdown() string {
	var b strings.Builder
	b.WriteString("# Benchmarks\n\nWritten by `make bench`, on " + r.machine + ".\n\n")
	fmt.Fprintf(&b, "Load: %d connections, each with one request under way, %d channels, contents of %d bytes; service, Redis\n"+
		"and load on one machine, Redis with its append-only file on. CPU times are of the process named, per request;\n"+
		"the floor is measured in turns with it, and Redis is emptied in between. Machines differ: look at the ratios.\n\n", drive.Connections, channels, contentBytes)
	b.WriteString("| figure | Tidemark | floor | ratio | goal | |\n|---|---:|---:|---:|---:|---|\n")
	for _, x := range r.rows {
		fmt.Fprintf(&b, "| %s | %.1f µs | %.1f µs | %.2f | ≤ %.1f | %s |\n", x.name, x.ours*1e6, x.floor*1e6, x.ratio, x.limit, verdict(x.ratio <= x.limit))
	}
	if r.next > 0 {
		fmt.Fprintf(&b, "\nOf the loop of a consumer, a `next` that acknowledges ten messages and fetches the next ten takes %.1f µs of Redis's\n"+
			"CPU time (goal ≤ %.0f µs, %s).\n", r.next*1e6, nextLimit*1e6, verdict(r.next <= nextLimit))
	}
	b.WriteString("\n## Many subscribers waiting on one channel\n\nOne message is published; every waiting long poll gets it.\n\n")
	b.WriteString("| waiting | notifications | scripts, the publish included | last one answered after | goal | memory each | goal | |\n|---:|---:|---:|---:|---:|---:|---:|---|\n")
	for _, f := range r.fanOuts {
		good := f.notifications == 1 && f.scripts == 1 && f.last <= lastLimit && f.bytes <= bytesLimit
		fmt.Fprintf(&b, "| %d | %.0f | %.0f | %d ms | ≤ %d ms | %.1f KB | ≤ %d KB | %s |\n",
			f.waiters, f.notifications, f.scripts, f.last.Milliseconds(), lastLimit.Milliseconds(), f.bytes/1000, bytesLimit/1000, verdict(good))
	}
	b.WriteString("\nMemory is the growth of the server's resident memory, connection included, divided by the number of subscribers.\n" +
		"Each row is the round with the median time, which includes that of the clients on the same cores.\n")
	r.writeWaiting(&b)
	r.writeLarge(&b)
	r.writeMatchmaking(&b)
	r.writeIdle(&b)
	r.writeAbuse(&b)
	return b.String()
}

func (r *report) writeLarge(b *strings.Builder) {
	if r.large.published == 0 {
		return
	}
	fmt.Fprintf(b, "\n## Small publishes beside large fetches\n\n%d subscribers fetch %d MiB each at the same time, and all have it after %.1f s. "+
		"Meanwhile one\nclient publishes messages of one byte, one after the other.\n\n", largeSubscribers, largeMessages*largeBytes>>20, r.large.all.Seconds())
	b.WriteString("| publishes | p50 | p99 | goal | |\n|---:|---:|---:|---:|---|\n")
	fmt.Fprintf(b, "| %d | %s | %s | %s | %s |\n", r.large.published, millis(r.large.p50), millis(r.large.p99), atMost(publishLimit), verdict(r.large.p99 <= publishLimit))
}

func (r *report) writeMatchmaking(b *strings.Builder) {
	if len(r.duels) == 0 {
		return
	}
	b.WriteString("\n## Matchmaking\n\nPlayers look for one opponent on a first-come queue, over gRPC: each creates a ticket, waits on WatchAssignments, and\n" +
		"begins again at once. Times are from the call that creates the ticket to its assignment; calls are all commands that\n" +
		"Redis was sent until then. One more per ticket ends the subscription afterwards. The bare handlers are the same library\n" +
		"on the same HTTP server: they store nothing, match nothing, and answer at once.\n\n" +
		"| players | tickets/s | goal | bare handlers | p50 | goal | p99 | goal | Redis calls per ticket | goal | |\n|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|\n")
	for i, d := range r.duels {
		goal := duelGoals[i]
		good := d.perSecond >= goal.perSecond && d.calls <= goal.calls &&
			(goal.p50 == 0 || d.p50 <= goal.p50) && (goal.p99 == 0 || d.p99 <= goal.p99)
		fmt.Fprintf(b, "| %d | %.0f | ≥ %.0f | %.0f/s | %s | %s | %s | %s | %.2f | ≤ %.0f | %s |\n", d.players, d.perSecond, goal.perSecond, d.bare,
			millis(d.p50), atMost(goal.p50), millis(d.p99), atMost(goal.p99), d.calls, goal.calls, verdict(good))
	}
	fmt.Fprintf(b, "\nBeside %d tickets that match none, in a criteria queue, a new pair has its assignments after %s (goal ≤ %s, %s).\n"+
		"Each of the waiting tickets takes %.1f KB of the server's memory and %.1f KB of Redis's.\n", strangers, millis(r.crowd.pair),
		millis(strangersLimit), verdict(r.crowd.pair <= strangersLimit), r.crowd.bytes/1000, r.crowd.redis/1000)
}

func (r *report) writeIdle(b *strings.Builder) {
	if r.idle.connections[0] == 0 {
		return
	}
	b.WriteString("\n## What is idle\n\n| idle | memory each | goal | commands a second | goal | connections to Redis before | with them | |\n" +
		"|---|---:|---:|---:|---:|---:|---:|---|\n")
	c := r.idle.connections
	good := r.idle.bytes <= idleBytesLimit && r.idle.commands <= idleCommandsLimit && c[1] <= c[0]+1
	fmt.Fprintf(b, "| %d queues | %.1f KB | ≤ %d KB | %.1f | ≤ %d | %d | %d | %s |\n", idleQueues,
		r.idle.bytes/1000, idleBytesLimit/1000, r.idle.commands, idleCommandsLimit, c[0], c[1], verdict(good))
	fmt.Fprintf(b, "| and %d long polls on %d channels | | | | | %d | %d | %s |\n", idleWaiters, idleChannels, c[1], c[2], verdict(c[2] <= c[1]+1))
}

func millis(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000) }

func atMost(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return "≤ " + millis(d)
}

func verdict(good bool) string {
	if good {
		return "reached"
	}
	return "missed"
}
