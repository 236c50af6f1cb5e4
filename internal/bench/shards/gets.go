package shards

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tidemark-dev/tidemark/internal/bench/report"
	"github.com/tidemark-dev/tidemark/internal/bench/target"
)

// read is what reads cost in one round.
type read struct {
	outcome
	nodes time.Duration // CPU time of the nodes, or of Redis
}

// got returns how many keys the clients have got.
func (o outcome) got() float64 { return float64(len(o.Took) * o.Keys) }

// perCore returns how many keys the clients have got for a second of their CPU time.
func (o outcome) perCore() float64 { return o.got() / o.CPU.Seconds() }

// perSecond returns how many keys the clients have got a second.
func (o outcome) perSecond() float64 { return o.got() / o.For.Seconds() }

// readFrom lets clients read.
func readFrom(c *clients, o order, used func() (time.Duration, error)) (r read, err error) {
	before, err := used()
	if err != nil {
		return r, err
	}
	if r.outcome, err = c.carryOut(o); err != nil {
		return r, err
	}
	after, err := used()
	r.nodes = after - before
	return r, err
}

// way is a way to read.
type way struct {
	name  string
	goal  bool
	redis bool
	local string // data centre that is asked first
	reads []read // one for each round
}

// measureGets reads as fast as the clients can, in each way in turns.
func measureGets(ctx context.Context, s target.Settings, u *target.Target, r *report.Report, all nodes) (err error) {
	ways := []*way{
		{name: "through nodes", goal: true}, {name: "through nodes, those of one data centre first", local: dcs[0]}, {name: "from Redis, by MGET", redis: true},
	}
	var measured []func() error
	for _, w := range ways {
		c, failed := startClients(ctx, all, setup{Redis: "unix://" + u.Redis.Socket, Entries: entries, Clients: 1, LocalDC: w.local})
		if failed != nil {
			return failed
		}
		defer func() { err = errors.Join(err, c.end()) }()
		if _, err := c.carryOut(order{Redis: w.redis, Callers: callers, For: readTime / 4}); err != nil { // connections, and buffers
			return err
		}
		used := all.cpu
		if w.redis {
			used = func() (time.Duration, error) {
				seconds, err := u.Redis.CPU(ctx)
				return time.Duration(seconds * 1e9), err
			}
		}
		measured = append(measured, func() error {
			one, err := readFrom(c, order{Redis: w.redis, Callers: callers, For: readTime / 2}, used)
			w.reads = append(w.reads, one)
			return err
		})
	}
	for range s.Rounds {
		for _, measure := range measured {
			if err := measure(); err != nil {
				return err
			}
		}
	}
	reportGets(r, ways)
	return nil
}

// reportGets writes a row for each way to read. The last one is what the others are compared with.
func reportGets(r *report.Report, ways []*way) {
	r.Printf("| %d callers read at once | keys/s for a core of the client | goal | | keys/s | p50 | p99 | CPU of nodes or Redis for a Get | CPU of the client, of that of MGET |\n"+
		"|---|---:|---:|---|---:|---:|---:|---:|---:|\n", callers)
	for _, w := range ways {
		took, perCore, goal := pooled(w.reads), median(w.reads, outcome.perCore), " | "
		if w.goal {
			goal = fmt.Sprintf("≥ %d | %s", keysPerCore, report.Verdict(perCore >= keysPerCore))
		}
		ratios := make([]float64, len(w.reads))
		for i, mget := range ways[len(ways)-1].reads {
			ratios[i] = mget.perCore() / w.reads[i].perCore()
		}
		r.Printf("| %s | %.0f | %s | %.0f | %s | %s | %s | %.1f |\n", w.name, perCore, goal, median(w.reads, outcome.perSecond), report.Millis(quantile(took, 0.5)),
			report.Millis(quantile(took, 0.99)), report.Micros(total(w.reads)/time.Duration(max(1, len(took)))), report.Median(ratios))
	}
	r.Printf("\nMGET asks Redis once, through a Unix socket.\n")
}

// median returns the median of a figure of rounds.
func median(all []read, figure func(outcome) float64) float64 {
	values := make([]float64, len(all))
	for i, one := range all {
		values[i] = figure(one.outcome)
	}
	return report.Median(values)
}

// total returns the CPU time of nodes, or of Redis, in all rounds.
func total(all []read) (sum time.Duration) {
	for _, one := range all {
		sum += one.nodes
	}
	return sum
}

// pooled returns how long each read of all rounds took, sorted.
func pooled(all []read) (took []time.Duration) {
	for _, one := range all {
		took = append(took, one.Took...)
	}
	slices.Sort(took)
	return took
}

// quantile returns a quantile of sorted times.
func quantile(took []time.Duration, q float64) time.Duration {
	if len(took) == 0 {
		return 0
	}
	return took[int(float64(len(took))*q)]
}
