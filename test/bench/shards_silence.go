package main

import (
	"slices"
	"syscall"
	"time"

	"github.com/tidemark-dev/tidemark/test/report"
)

// silenceRounds is the number of times that a data centre is silent.
const silenceRounds = 5

// measureSilence stops the processes of one data centre after the other, so that they don't answer but keep their
// connections open. It compares the duration of Gets with that while all processes run.
func (u *system) measureSilence(all nodes) {
	c := u.startClient(all)
	defer c.end()
	paced := func(length time.Duration) order { return order{Callers: callers, For: length, Pace: getPace} }
	c.read(paced(readTime / 2))
	var with, without []time.Duration
	for round := range silenceRounds {
		without = append(without, c.read(paced(readTime)).Took...)
		stopped := all.of(dcs[round%len(dcs)]) // for much less than the duration of their leases
		stopped.signal(syscall.SIGSTOP)
		with = append(with, c.read(paced(readTime)).Took...)
		stopped.signal(syscall.SIGCONT)
		stopped.awaitReady()
		c.read(paced(readTime / 4)) // the backlog is answered meanwhile
	}
	slices.Sort(without)
	slices.Sort(with)
	ratio := float64(quantile(with, 0.99)) / float64(quantile(without, 0.99))
	u.printf("\n%d Gets a second are measured while all nodes run, and in turns while the nodes of one data "+
		"centre are stopped:\ntheir connections stay open, but they don't answer.\n\n"+
		"| nodes | Gets | p50 | p99 | of that without | goal | |\n"+
		"|---|---:|---:|---:|---:|---:|---|\n", callers*int(time.Second/getPace))
	u.printf("| all run | %d | %s | %s | | | |\n", len(without), report.Millis(quantile(without, 0.5)),
		report.Millis(quantile(without, 0.99)))
	u.printf("| one data centre is silent | %d | %s | %s | %.2f | ≤ %.1f | %s |\n", len(with),
		report.Millis(quantile(with, 0.5)),
		report.Millis(quantile(with, 0.99)), ratio, silentRatio, report.Verdict(ratio <= silentRatio))
}
