package topology

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// SlotCount is how many slots a Cluster has.
const SlotCount = 16384

// SlotRange is slots of one primary.
type SlotRange struct {
	First, Last int
	Primary     string // ID of the node
}

// slotsTimeout is how long reading the slots may take.
const slotsTimeout = time.Second

// ReadSlots asks all nodes of a Cluster for the slots, and returns the first answer: some nodes may be down.
func ReadSlots(ctx context.Context, client rueidis.Client) (ranges []SlotRange, err error) {
	ctx, cancel := context.WithTimeout(ctx, slotsTimeout)
	var mu sync.Mutex
	var asking sync.WaitGroup
	for _, node := range client.Nodes() {
		asking.Go(func() {
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
	asking.Wait()
	cancel()
	if ranges != nil {
		return ranges, nil
	}
	return nil, fmt.Errorf("read the slots: %w", err)
}

// ErrReply is the error of a reply to CLUSTER SLOTS that can't be decoded.
var ErrReply = errors.New("malformed reply to CLUSTER SLOTS")

// parseSlots parses the reply to CLUSTER SLOTS: of each range the first slot, the last slot, the primary and its
// replicas. Of a node it is the address, the port and the ID.
func parseSlots(result rueidis.RedisResult) ([]SlotRange, error) {
	entries, err := result.ToArray()
	if err != nil {
		return nil, err
	}
	ranges := make([]SlotRange, len(entries))
	for i := range entries {
		entry, err := entries[i].ToArray()
		if err != nil || len(entry) < 3 {
			return nil, ErrReply
		}
		node, errNode := entry[2].ToArray()
		if errNode != nil || len(node) < 3 {
			return nil, ErrReply
		}
		first, errFirst := entry[0].AsInt64()
		last, errLast := entry[1].AsInt64()
		id, errID := node[2].ToString()
		if err := errors.Join(errFirst, errLast, errID); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrReply, err)
		}
		if first < 0 || first > last || last >= SlotCount {
			return nil, fmt.Errorf("%w: slots %d to %d", ErrReply, first, last)
		}
		ranges[i] = SlotRange{First: int(first), Last: int(last), Primary: id}
	}
	return ranges, nil
}

// parseRange parses a slot, or a range of them such as 0-5460.
func parseRange(text string) (r SlotRange, err error) {
	first, last, isRange := strings.Cut(text, "-")
	if !isRange {
		last = first
	}
	if r.First, err = strconv.Atoi(first); err == nil {
		r.Last, err = strconv.Atoi(last)
	}
	return r, err
}

// Uncovered returns the slots that no primary has, as text such as "0-5460,5462".
func Uncovered(ranges []SlotRange) (text string) {
	slices.SortFunc(ranges, func(a, b SlotRange) int { return cmp.Compare(a.First, b.First) })
	next := 0
	for _, r := range append(ranges, SlotRange{First: SlotCount, Last: SlotCount}) {
		if r.First > next {
			text = AppendSlots(text, next, r.First-1)
		}
		next = max(next, r.Last+1)
	}
	return text
}

// MaxSlotsText limits texts of slots: while slots are being spread, a primary may have thousands of ranges.
const MaxSlotsText = 200

// AppendSlots adds a range of slots to a text of them, such as "0-5460,5462". One beyond MaxSlotsText ends with ",…".
func AppendSlots(text string, first, last int) string {
	const more = ",…"
	if len(text) > MaxSlotsText {
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
