package redis

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-dev/tidemark/internal/pace"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/topology"
)

// The writes of a primary are a history: its replication ID names it, and its offset is the number of their bytes. A
// replica that is promoted begins a history of its own, and names the one before, with the offset at which it left it.
// What the former primary has written after that offset is lost. A primary that is cut off from its Sentinels and
// replicas, but not from a server, answers that server until the cut heals: all of that is lost then.

const (
	historyEvery = time.Second // interval at which nodes are asked for their histories
	historyLimit = time.Second // of one question
	historyKept  = time.Hour   // after which a history that isn't continued is forgotten
	historyMarks = 1024        // of one history, at most; more are thinned out

	pingBytes = 14               // of a primary's PING to its replicas, which is a part of its history
	pingEvery = 10 * time.Second // default of repl-ping-replica-period
)

// Failover is the change to a primary that continues the history of another one, or its own after a restart.
type Failover struct {
	From, To string    // addresses
	At       time.Time // when this process noticed it
	// Lost reports whether the history of the former primary has more than PINGs that the new one lacks: writes may be
	// lost. Those are from after LostSince, which is when the former one was last seen without them, to within a second.
	Lost      bool
	LostSince time.Time
	LostBytes int64 // of the former primary's history; also of what no client wrote, such as expiries
}

// history is what a primary has written, as far as it was seen.
type history struct {
	address, run string // of the primary
	began        time.Time
	marks        []mark // in the order of time
}

// mark is an offset of a history, and when it was seen last.
type mark struct {
	at     time.Time
	offset int64
}

// add adds a mark.
func (h *history) add(m mark) {
	if h.last().offset == m.offset {
		h.marks[len(h.marks)-1] = m
		return
	}
	if len(h.marks) >= historyMarks {
		thinned := h.marks[:0]
		for i := 0; i < len(h.marks); i += 2 {
			thinned = append(thinned, h.marks[i])
		}
		h.marks = thinned
	}
	h.marks = append(h.marks, m)
}

func (h *history) last() mark { return h.marks[len(h.marks)-1] }

// lostAfter returns what may be lost if the history was left at an offset. PINGs alone are no loss.
func (h *history) lostAfter(offset int64) (lost bool, since time.Time, bytes int64) {
	bytes = h.last().offset - offset
	if bytes <= 0 {
		return false, time.Time{}, 0
	}
	since = h.began
	for _, m := range h.marks {
		if m.offset > offset {
			break
		}
		since = m.at
	}
	if pings := 1 + int64(h.last().at.Sub(since)/pingEvery); bytes%pingBytes == 0 && bytes <= pings*pingBytes {
		return false, time.Time{}, 0
	}
	return true, since, bytes
}

// histories are those of the primaries that were seen, by their replication IDs. One goroutine uses it.
type histories map[string]*history

// observe records a primary, and returns the fail-over that it shows, if any.
func (all histories) observe(at time.Time, address string, fields topology.Info) (f Failover, found bool) {
	id, now := fields["master_replid"], mark{at, fields.Number("master_repl_offset")}
	if id == "" || fields["role"] != "master" { // some hosted ones hide it
		return f, false
	}
	if h := all[id]; h != nil {
		h.address, h.run = address, fields["run_id"]
		h.add(now)
		return f, false
	}
	all[id] = &history{address: address, run: fields["run_id"], began: at, marks: []mark{now}}
	before := all[fields["master_replid2"]]
	if before == nil || before.run == fields["run_id"] {
		return f, false
	}
	f = Failover{From: before.address, To: address, At: at}
	f.Lost, f.LostSince, f.LostBytes = before.lostAfter(fields.Number("second_repl_offset") - 1)
	return f, true
}

// forget removes the histories that no primary continues.
func (all histories) forget(now time.Time) {
	maps.DeleteFunc(all, func(_ string, h *history) bool { return now.Sub(h.last().at) > historyKept })
}

// WatchFailovers asks the primary, or all nodes of a Cluster, for their histories every second until ctx ends, and logs
// and counts each fail-over, with what it may have lost. A server that is cut off together with a primary learns of it
// when the cut heals.
func (c *Conn) WatchFailovers(ctx context.Context) error {
	seen := histories{}
	for {
		for _, f := range c.failovers(ctx, seen) {
			c.metrics.failedOver(f)
			if f.Lost {
				c.logger.ErrorContext(ctx, "redis has another primary, which lacks writes of the former one",
					"from", f.From, "to", f.To, "lostSince", f.LostSince.UTC().Format(time.RFC3339),
					"lostUntil", f.At.UTC().Format(time.RFC3339), "lostBytes", f.LostBytes)
				continue
			}
			c.logger.InfoContext(ctx, "redis has another primary", "from", f.From, "to", f.To)
		}
		if !pace.Sleep(ctx, pace.Jitter(historyEvery)) {
			return nil
		}
	}
}

// failovers asks all nodes that can be reached. Those include the replicas of a Cluster, one of which may be promoted.
func (c *Conn) failovers(ctx context.Context, seen histories) (found []Failover) {
	ctx, cancel := context.WithTimeout(ctx, historyLimit)
	defer cancel()
	at := time.Now()
	var mu sync.Mutex
	var nodes []topology.Node
	var asking sync.WaitGroup
	for address, client := range c.client.Nodes() {
		asking.Go(func() {
			fields, err := topology.ReadInfo(ctx, client, "server", "replication")
			if err != nil {
				return // it is asked again
			}
			mu.Lock()
			defer mu.Unlock()
			nodes = append(nodes, topology.Node{Address: address, Info: fields})
		})
	}
	asking.Wait()
	slices.SortFunc(nodes, func(a, b topology.Node) int { return cmp.Compare(a.Address, b.Address) })
	for _, n := range nodes {
		if f, ok := seen.observe(at, n.Address, n.Info); ok {
			found = append(found, f)
		}
	}
	seen.forget(at)
	return found
}
