package main

import (
	"os"
	"strconv"

	"github.com/tidemark-dev/tidemark/test/report"
)

// manyEntries is the number of entries of a node whose memory is measured.
const manyEntries = 1_000_000

// measureMemory compares the memory of a node that has many entries with that of one that has few.
func (u *system) measureMemory() {
	fewLive, fewResident := u.nodeMemory("few")
	u.fillShards(manyEntries)
	live, resident := u.nodeMemory("many")
	keys := 0
	for i := entries; i < manyEntries; i++ {
		keys += len(strconv.Itoa(i))
	}
	const added = manyEntries - entries
	each := float64(keys)/added + float64(len(entryValue))
	live, resident = (live-fewLive)/added-each, (resident-fewResident)/added-each
	u.printf("\n" +
		"| entries of a node | key and value | memory above them, as the garbage collector leaves it | goal | | resident " +
		"|\n" +
		"|---:|---:|---:|---:|---|---:|\n")
	u.printf("| %d | %.1f bytes | %.1f bytes | ≤ %d bytes | %s | %.1f bytes |\n", manyEntries, each, live, bytesOfEntry,
		report.Verdict(live <= bytesOfEntry), resident)
}

// nodeMemory returns the memory of a node with all entries, in bytes. Go collects garbage often, so that little garbage
// is resident, and once more after all entries are loaded.
func (u *system) nodeMemory(dc string) (live, resident float64) {
	u.Must(os.Setenv("GOGC", "10"))
	all := u.startNodes(dc, 1)
	u.Must(os.Unsetenv("GOGC"))
	defer all.end()
	all.awaitReady()
	u.awaitCollection(all)
	return all[0].live(), all[0].resident()
}

// awaitCollection reads from a node until it has collected its garbage.
func (u *system) awaitCollection(all nodes) {
	c := u.startClient(all)
	defer c.end()
	collected := func() float64 { return all[0].metric("go_memstats_last_gc_time_seconds") }
	for loaded := collected(); collected() == loaded; {
		c.read(order{Callers: callers, For: readTime / 10})
	}
}
