package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// part is the part of Redis that one readiness call is sent to: a primary of a Cluster, slots of a Cluster without a
// primary, or a standalone Redis.
type part struct {
	tag   string // hash tag of a key of the check, whose slot is in the part
	slots string // such as "0-5460,5462"; empty: it isn't a Cluster
}

const (
	// slotCount is how many slots a Cluster has.
	slotCount = 16384
	// partsEvery is how often the slots of a Cluster's primaries are read, and partsTimeout how long that may take.
	partsEvery, partsTimeout = 5 * time.Second, time.Second
)

// readyParts returns the parts to check. The first call in a while reads the slots of a Cluster; if that fails, the
// parts are those of the last time.
func (c *Conn) readyParts(ctx context.Context) []part {
	r := &c.readiness
	if c.client.Mode() == rueidis.ClientModeCluster && time.Since(r.read) >= partsEvery {
		if ranges, err := readSlots(ctx, c.client); err == nil {
			r.parts, r.read = partsOf(r.server, ranges), time.Now()
		}
	}
	if len(r.parts) == 0 {
		return []part{{tag: r.server}}
	}
	return r.parts
}

// slotRange is slots of a primary.
type slotRange struct {
	first, last int
	primary     string // ID of the node
}

// readSlots asks all nodes for the slots, and returns the first answer: some nodes may be down.
func readSlots(ctx context.Context, client rueidis.Client) (ranges []slotRange, err error) {
	ctx, cancel := context.WithTimeout(ctx, partsTimeout)
	var mu sync.Mutex
	var asked sync.WaitGroup
	for _, node := range client.Nodes() {
		asked.Go(func() {
			found, failed := parseSlots(node.Do(ctx, node.B().ClusterSlots().Build()))
			mu.Lock()
			defer mu.Unlock()
			if failed != nil {
				err = errors.Join(err, failed)
				return
			}
			ranges = found
			cancel()
		})
	}
	asked.Wait()
	cancel()
	if ranges != nil {
		return ranges, nil
	}
	return nil, fmt.Errorf("read the slots: %w", err)
}

// parseSlots parses the reply to CLUSTER SLOTS: of each range the first slot, the last slot, the primary and its
// replicas. Of a node it is the address, the port and the ID.
func parseSlots(result rueidis.RedisResult) ([]slotRange, error) {
	entries, err := result.ToArray()
	if err != nil {
		return nil, err
	}
	ranges := make([]slotRange, len(entries))
	for i := range entries {
		entry, err := entries[i].ToArray()
		if err != nil || len(entry) < 3 {
			return nil, fmt.Errorf("%w: CLUSTER SLOTS", ErrReply)
		}
		node, errNode := entry[2].ToArray()
		if errNode != nil || len(node) < 3 {
			return nil, fmt.Errorf("%w: CLUSTER SLOTS", ErrReply)
		}
		first, errFirst := entry[0].AsInt64()
		last, errLast := entry[1].AsInt64()
		id, errID := node[2].ToString()
		if err := errors.Join(errFirst, errLast, errID); err != nil {
			return nil, fmt.Errorf("%w: CLUSTER SLOTS: %w", ErrReply, err)
		}
		if first < 0 || first > last || last >= slotCount {
			return nil, fmt.Errorf("%w: CLUSTER SLOTS: slots %d to %d", ErrReply, first, last)
		}
		ranges[i] = slotRange{first: int(first), last: int(last), primary: id}
	}
	return ranges, nil
}

// partsOf returns a part for each primary, and one for slots without a primary. The tag of the part with the server's
// own slot is the server; those of the others are the server and a number, which is increased until the slot fits.
func partsOf(server string, ranges []slotRange) []part {
	var owners [slotCount]string
	for _, r := range ranges {
		for slot := r.first; slot <= r.last; slot++ {
			owners[slot] = r.primary
		}
	}
	var parts []part
	index := map[string]int{} // into parts, by owner
	for slot := 0; slot < slotCount; {
		owner, first := owners[slot], slot
		for slot < slotCount && owners[slot] == owner {
			slot++
		}
		at, ok := index[owner]
		if !ok {
			at, index[owner] = len(parts), len(parts)
			parts = append(parts, part{})
		}
		parts[at].slots = appendSlots(parts[at].slots, first, slot-1)
	}
	for n, untagged, tag := 0, len(parts), server; untagged > 0; n, tag = n+1, server+"."+strconv.Itoa(n) {
		if p := &parts[index[owners[slotOf(tag)]]]; p.tag == "" {
			p.tag, untagged = tag, untagged-1
		}
	}
	return parts
}

// maxSlotsText limits the text of a part's slots: while slots are being spread, a primary may have thousands of ranges.
const maxSlotsText = 200

func appendSlots(text string, first, last int) string {
	const more = ",…"
	if len(text) > maxSlotsText {
		return strings.TrimSuffix(text, more) + more
	}
	if text != "" {
		text += ","
	}
	text += strconv.Itoa(first)
	if last > first {
		text += "-" + strconv.Itoa(last)
	}
	return text
}

// slotOf returns the slot of a hash tag.
func slotOf(tag string) int {
	command := rueidis.Completed{}.SetSlot(tag)
	return int(command.Slot())
}
