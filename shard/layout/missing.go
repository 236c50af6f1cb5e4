package layout

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/shard"
)

// Missing returns the conditions under which data centres would be whole, a line each: shards without holders, and
// those that aren't loaded. Without a line each sharding key has a node in each of them.
func Missing(dcs []shard.DC) []string {
	var lines []string
	for _, dc := range dcs {
		if dc.Layout.Generation == 0 {
			lines = append(lines, dc.Name+": it has no layout")
		}
		for _, h := range dc.Shards {
			which := fmt.Sprintf("%s: shard %d (%s)", dc.Name, h.Shard, dc.Layout.Interval(h.Shard))
			switch {
			case h.Left == 0 && h.Host == "":
				lines = append(lines, which+": no node has claimed it yet")
			case h.Left == 0:
				lines = append(lines, fmt.Sprintf("%s: no node holds it; %s (%s) was the last one", which, h.Host,
					h.Address))
			case !h.Loaded:
				lines = append(lines, fmt.Sprintf("%s: %s (%s) hasn't loaded it yet", which, h.Host, h.Address))
			}
		}
	}
	return lines
}

// Unsettled returns the signs of a change of layouts in progress, a line each: holders of earlier layouts, and data
// centres that are split otherwise than the first one.
func Unsettled(dcs []shard.DC) []string {
	var lines []string
	for i, dc := range dcs {
		lines = append(lines, former(dc)...)
		if i > 0 && !slices.Equal(dc.Layout.Starts, dcs[0].Layout.Starts) {
			lines = append(lines,
				fmt.Sprintf("%s: split otherwise than %s, into %d shards and not %d: a change isn't over",
					dc.Name, dcs[0].Name, len(dc.Layout.Starts), len(dcs[0].Layout.Starts)))
		}
	}
	return lines
}

// former returns the holders of earlier layouts of a data centre.
func former(dc shard.DC) []string {
	var lines []string
	for _, h := range dc.Former {
		lines = append(lines, fmt.Sprintf("%s: %s (%s) still holds shard %d of the layout before", dc.Name, h.Host,
			h.Address, h.Shard))
	}
	return lines
}

// lastPings is when the hosts of data centres pinged last.
type lastPings map[[2]string]time.Time // by data centre and host

func lastPingsOf(dcs []shard.DC) lastPings {
	last := lastPings{}
	for _, dc := range dcs {
		for _, h := range dc.Shards {
			last[[2]string{dc.Name, h.Host}] = h.Pinged
		}
	}
	return last
}

// silent returns the holders of data centres that haven't pinged since, a line each. They may have crashed: their
// claims remain for some time.
func (last lastPings) silent(dcs []shard.DC) []string {
	var lines []string
	for _, dc := range dcs {
		for _, h := range dc.Shards {
			if last[[2]string{dc.Name, h.Host}].Equal(h.Pinged) {
				lines = append(lines, fmt.Sprintf("%s: %s (%s) holds shard %d, but hasn't pinged lately", dc.Name,
					h.Host, h.Address, h.Shard))
			}
		}
	}
	return lines
}

// shownRanges is how many ranges of shards a summary names, at most, for each data centre.
const shownRanges = 8

// Summary returns in a sentence what Missing lists; empty: nothing is missing.
func Summary(cache string, dcs []shard.DC) string {
	if len(dcs) == 0 {
		return cache + " has no layout in any data centre: tidemark shards layout"
	}
	all := 0
	var without, parts []string
	for _, dc := range dcs {
		all += len(dc.Shards)
		if dc.Layout.Generation == 0 {
			without = append(without, dc.Name)
		}
	}
	if n, which := those(dcs, func(h shard.Holder) bool { return h.Left == 0 }); n > 0 {
		parts = append(parts, fmt.Sprintf("shards of %s without a node: %d of %d (%s)", cache, n, all, which))
	}
	if n, which := those(dcs, func(h shard.Holder) bool { return h.Left > 0 && !h.Loaded }); n > 0 {
		parts = append(parts, fmt.Sprintf("shards of %s that are being loaded: %d of %d (%s)", cache, n, all, which))
	}
	if len(without) > 0 {
		parts = append(parts, fmt.Sprintf("%s has no layout in %s", cache, strings.Join(without, ", ")))
	}
	return strings.Join(parts, "; ")
}

// those returns the number of shards for which is returns true, and their ranges by data centre, such as
// "in east: 3-14, 17; in west: 0".
func those(dcs []shard.DC, is func(shard.Holder) bool) (n int, which string) {
	var parts []string
	for _, dc := range dcs {
		var ranges []string
		for i := 0; i < len(dc.Shards); i++ {
			if !is(dc.Shards[i]) {
				continue
			}
			first := i
			for i+1 < len(dc.Shards) && is(dc.Shards[i+1]) {
				i++
			}
			n += i + 1 - first
			shards := strconv.Itoa(first)
			if i > first {
				shards += "-" + strconv.Itoa(i)
			}
			ranges = append(ranges, shards)
		}
		if more := len(ranges) - shownRanges; more > 0 {
			ranges = append(ranges[:shownRanges], fmt.Sprintf("and %d more ranges", more))
		}
		if len(ranges) > 0 {
			parts = append(parts, "in "+dc.Name+": "+strings.Join(ranges, ", "))
		}
	}
	return n, strings.Join(parts, "; ")
}
