package shards

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/shard"
	"github.com/tidemark-dev/tidemark/storage/redis"
)

// SetLayout implements shard.Layouts.
func (s *Store) SetLayout(ctx context.Context, cache, dc string, generation uint64, starts []uint64) (shard.Layout,
	error) {
	if err := checkDC(cache, dc); err != nil {
		return shard.Layout{}, fmt.Errorf("set a layout: %w", err)
	}
	if err := shard.CheckStarts(starts); err != nil {
		return shard.Layout{}, fmt.Errorf("set a layout: %w", err)
	}
	k := s.keys(cache)
	args := []string{dc, strconv.FormatUint(generation, 10), textOf(starts), strconv.Itoa(shard.MaxDCs), k.topic(dc)}
	reply, err := s.conn.Run(ctx, setScript, []string{k.dcs(), k.layout(dc), k.shards(dc)}, args)
	if err != nil {
		return shard.Layout{}, fmt.Errorf("set a layout: %w", err)
	}
	if reply.Status != redis.OK {
		return shard.Layout{}, refusals.Error(reply)
	}
	d := reply.Decoder()
	l := shard.Layout{Generation: uint64(d.Int64()), Starts: slices.Clone(starts)}
	return l, d.End()
}

func checkDC(cache, dc string) error {
	if err := shard.CheckName("cache", cache); err != nil {
		return err
	}
	return shard.CheckName("data centre", dc)
}

// textOf returns starts in the form of the scripts: all have the same length, so that a script finds one by its number.
func textOf(starts []uint64) string {
	texts := make([]string, len(starts))
	for i, start := range starts {
		texts[i] = fmt.Sprintf("%016x", start)
	}
	return strings.Join(texts, " ")
}

// Remove implements shard.Layouts.
func (s *Store) Remove(ctx context.Context, cache, dc string) error {
	if err := checkDC(cache, dc); err != nil {
		return fmt.Errorf("remove: %w", err)
	}
	k := s.keys(cache)
	reply, err := s.conn.Run(ctx, removeScript, []string{k.dcs(), k.layout(dc), k.shards(dc)},
		[]string{dc, k.topic(dc)})
	if err != nil {
		return fmt.Errorf("remove: %w", err)
	}
	return refusals.Check(reply, redis.OK)
}

// Status implements shard.Layouts: one read of the data centres, and then one script for each, in one round trip.
func (s *Store) Status(ctx context.Context, cache string) ([]shard.DC, error) {
	if err := shard.CheckName("cache", cache); err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	k := s.keys(cache)
	var names []string
	err := s.conn.Retry(ctx, "status", func(ctx context.Context) (err error) {
		names, err = s.conn.Client().Do(ctx, s.conn.Client().B().Smembers().Key(k.dcs()).Build()).AsStrSlice()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	// something else has written them
	names = slices.DeleteFunc(names, func(dc string) bool { return shard.CheckName("data centre", dc) != nil })
	slices.Sort(names)
	found, calls := make([]shard.DC, len(names)), make([]redis.Call, len(names))
	for i, dc := range names {
		calls[i].Keys = []string{k.layout(dc), k.shards(dc)}
	}
	for i, result := range s.conn.RunMany(ctx, statusScript, calls) {
		if err := result.Err; err != nil {
			return nil, fmt.Errorf("status of %s: %w", names[i], err)
		}
		if found[i], err = status(result.Reply); err != nil {
			return nil, fmt.Errorf("status of %s: %w", names[i], err)
		}
		found[i].Name = names[i]
	}
	return found, nil
}

func status(reply redis.Reply) (dc shard.DC, err error) {
	if reply.Status != redis.OK {
		return dc, refusals.Error(reply)
	}
	d := reply.Decoder()
	now := d.Int64()
	dc.Layout.Generation = uint64(d.Int64())
	dc.Layout.Starts = starts(d)
	if dc.Layout.Generation > 0 {
		d.Fail(shard.CheckStarts(dc.Layout.Starts))
	}
	dc.Shards = make([]shard.Holder, len(dc.Layout.Starts))
	for i := range dc.Shards {
		dc.Shards[i] = shard.Holder{Shard: i, Generation: dc.Layout.Generation}
	}
	d.Each(func(list *redis.Decoder) {
		host := list.Text()
		if h, ok := holder(list.Text(), now); ok && shard.CheckName("host", host) == nil {
			h.Host = host
			add(&dc, h)
		}
	})
	slices.SortFunc(dc.Former, func(a, b shard.Holder) int { return a.Shard - b.Shard })
	return dc, d.End()
}

// add adds a holder to the status of its data centre, unless its shard has had a later holder.
func add(dc *shard.DC, h shard.Holder) {
	switch {
	case h.Generation != dc.Layout.Generation && h.Left > 0:
		dc.Former = append(dc.Former, h)
	case h.Generation == dc.Layout.Generation && h.Shard < len(dc.Shards) &&
		dc.Shards[h.Shard].Incarnation < h.Incarnation:
		dc.Shards[h.Shard] = h
	}
}

// holder parses a field of a data centre's hash. A value of another form counts as none, as it does for the scripts.
func holder(value string, now int64) (h shard.Holder, ok bool) {
	parts := strings.Fields(value)
	if len(parts) != 9 || !printable.MatchString(parts[8]) {
		return h, false
	}
	var numbers [7]int64
	for i := range numbers {
		n, err := strconv.ParseInt(parts[i], 10, 64)
		if err != nil || n < 0 {
			return h, false
		}
		numbers[i] = n
	}
	until, pinged := numbers[0], numbers[1]
	remaining := until - max(now, pinged) // a ping in the future is from before Redis's clock was set back
	return shard.Holder{
		Pinged: time.UnixMilli(pinged).UTC(), Shard: int(numbers[2]), Generation: uint64(numbers[3]),
		Incarnation: uint64(numbers[4]),
		Locked:      time.UnixMilli(numbers[5]).UTC(), Loaded: numbers[6] == 1, Address: parts[8],
		Left: time.Duration(max(remaining, 0)) * time.Millisecond,
	}, true
}
