package redis

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/storage/redis/internal/topology"
)

// part is the part of Redis that one readiness call is sent to: a primary of a Cluster, slots of a Cluster without a
// primary, or a standalone Redis.
type part struct {
	tag   string // hash tag of a key of the check, whose slot is in the part
	slots string // such as "0-5460,5462"; empty: it isn't a Cluster
}

// partsEvery is how often the slots of a Cluster's primaries are read.
const partsEvery = 5 * time.Second

// readyParts returns the parts to check. The first call in a while reads the slots of a Cluster; if that fails, the
// parts are those of the last time.
func (c *Conn) readyParts(ctx context.Context) []part {
	r := &c.readiness
	if c.client.Mode() == rueidis.ClientModeCluster && time.Since(r.read) >= partsEvery {
		if ranges, err := topology.ReadSlots(ctx, c.client); err == nil {
			r.parts, r.read = partsOf(r.server, ranges), time.Now()
		}
	}
	if len(r.parts) == 0 {
		return []part{{tag: r.server}}
	}
	return r.parts
}

// partsOf returns a part for each primary, and one for slots without a primary. The tag of the part with the server's
// own slot is the server; those of the others are the server and a number, which is increased until the slot fits.
func partsOf(server string, ranges []topology.SlotRange) []part {
	var owners [topology.SlotCount]string
	for _, r := range ranges {
		for slot := r.First; slot <= r.Last; slot++ {
			owners[slot] = r.Primary
		}
	}
	var parts []part
	index := map[string]int{} // into parts, by owner
	for slot := 0; slot < topology.SlotCount; {
		owner, first := owners[slot], slot
		for slot < topology.SlotCount && owners[slot] == owner {
			slot++
		}
		at, ok := index[owner]
		if !ok {
			at, index[owner] = len(parts), len(parts)
			parts = append(parts, part{})
		}
		parts[at].slots = topology.AppendSlots(parts[at].slots, first, slot-1)
	}
	for n, untagged, tag := 0, len(parts), server; untagged > 0; n, tag = n+1, server+"."+strconv.Itoa(n) {
		if p := &parts[index[owners[slotOf(tag)]]]; p.tag == "" {
			p.tag, untagged = tag, untagged-1
		}
	}
	return parts
}

// slotOf returns the slot of a hash tag.
func slotOf(tag string) int {
	command := rueidis.Completed{}.SetSlot(tag)
	return int(command.Slot())
}
