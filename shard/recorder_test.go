package shard_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/shard"
)

// timesNode is a node whose values are the times at which they were read.
type timesNode = shard.Node[uint64, uint64, time.Duration]

// times describes the cache of such nodes.
var times = shard.Description[uint64, uint64, time.Duration]{
	Cache: "times", ShardingKey: func(key uint64) uint64 { return key },
	EntryID: func(key uint64) uint64 { return key },
	Keys:    shard.JSON[[]uint64](), Values: shard.JSON[[]shard.Entry[uint64, time.Duration]](),
}

// recorder records what one node does. It is the node's source and its observer.
type recorder struct {
	DC    string
	At    func(time.Time) time.Duration // converts to the clock that all nodes share
	Write func(event)
	Pause func(ctx context.Context) // is called before each read

	mu    sync.Mutex
	held  recordedClaim // that was recorded last
	until time.Time     // that was recorded last; zero: it has stopped since
}

// Run implements shard.Source.
func (r *recorder) Run(
	ctx context.Context, _ shard.Interval, serve func(shard.Reader[uint64, uint64, time.Duration]),
) error {
	serve(func(ctx context.Context, keys []uint64) ([]shard.Entry[uint64, time.Duration], error) {
		r.Pause(ctx)
		return []shard.Entry[uint64, time.Duration]{{ID: keys[0], Value: r.At(time.Now())}}, nil
	})
	<-ctx.Done()
	return nil
}

// Ask requests a key of the node's shard, and records until when the node may answer, and when the value was read. It
// reports whether the node has answered.
func (r *recorder) Ask(ctx context.Context, n *timesNode) (answered bool, err error) {
	c, ok := r.look(n)
	if !ok {
		return false, nil
	}
	keys := []uint64{c.Interval.First}
	payload, err := times.Keys.Append(nil, keys)
	if err != nil {
		return false, err
	}
	got, err := n.Get(ctx, &shard.Request{Cache: times.Cache, Payload: payload, Keys: keys})
	if err != nil || !got.AllMatched {
		return false, err
	}
	r.look(n)
	values, err := times.Values.Decode(got.Payload)
	if err != nil {
		return false, err
	}
	from := recordedClaim{DC: r.DC, Shard: got.Shard, Incarnation: got.Incarnation}
	r.Write(event{Kind: eventReads, Claim: from, At: values[0].Value})
	return true, nil
}

// look records until when the node may answer.
func (r *recorder) look(n *timesNode) (c shard.Claimed, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, until, ok := n.Held()
	if ok {
		r.record(c, until)
	}
	return c, ok
}

func (r *recorder) record(c shard.Claimed, until time.Time) {
	held := recordedClaim{DC: r.DC, Shard: c.Interval, Incarnation: c.Incarnation}
	if held == r.held && until.Equal(r.until) {
		return
	}
	r.held, r.until = held, until
	r.Write(event{Kind: eventHolds, Claim: r.held, At: r.At(time.Now()), Until: r.At(until)})
}

// Stopped implements shard.NodeObserver.
func (r *recorder) Stopped(error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.until = time.Time{}
	r.Write(event{Kind: eventStops, Claim: r.held, At: r.At(time.Now())})
}

// Answered implements shard.NodeObserver.
func (*recorder) Answered(int, bool, time.Duration, error) {}

// Claimed implements shard.NodeObserver. Nobody else may answer for the shard from now on.
func (r *recorder) Claimed(c shard.Claimed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.record(c, time.Now())
}

// Loaded implements shard.NodeObserver.
func (*recorder) Loaded(time.Duration, error) {}

// recordedClaim is a shard that a node has claimed.
type recordedClaim struct {
	DC          string
	Shard       shard.Interval
	Incarnation uint64
}

func (c recordedClaim) String() string {
	return fmt.Sprintf("%s %v, incarnation %d", c.DC, c.Shard, c.Incarnation)
}

// eventKind is the kind of an event.
type eventKind string

// Kinds of events.
const (
	eventHolds eventKind = "holds" // the node may answer for the shard until Until
	eventStops eventKind = "stops" // it doesn't answer any longer
	eventReads eventKind = "reads" // it has read values, with which it has answered
)

// event is an event of a node. Its times are of a clock that all nodes share.
type event struct {
	Kind  eventKind
	Claim recordedClaim
	At    time.Duration
	Until time.Duration // of eventHolds
}

// span is a time in which a node may answer.
type span struct {
	node        string
	claim       recordedClaim
	from, until time.Duration
}

func (s span) String() string {
	return fmt.Sprintf("%s has %v from %v until %v", s.node, s.claim, s.from, s.until)
}

// checkRecords returns the violations in the records of nodes, by the name of the node. No two nodes of a data centre
// may answer for a key at the same time, and a node may read values only while it holds their shard. A restarted node
// is another node.
func checkRecords(records map[string][]event) (faults []string) {
	var all []span
	for node, events := range records {
		spans, wrong := followRecord(node, events)
		all, faults = append(all, spans...), append(faults, wrong...)
	}
	slices.SortFunc(all, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	for i, a := range all {
		for _, b := range all[i+1:] {
			switch {
			case a.claim.DC != b.claim.DC, a.claim.Shard.Last < b.claim.Shard.First,
				b.claim.Shard.Last < a.claim.Shard.First:
			case a.node != b.node && b.from < a.until:
				faults = append(faults, fmt.Sprintf("two nodes for %v: %v; %v", min(a.until, b.until)-b.from, a, b))
			case a.claim.Shard == b.claim.Shard && b.claim.Incarnation < a.claim.Incarnation:
				faults = append(faults, fmt.Sprintf("the incarnation falls: %v; %v", a, b))
			}
		}
	}
	return faults
}

// followRecord returns the times in which a node may answer, and which values it has read outside of them. A claim that
// it holds again without having stopped was held all the time: otherwise it would have another incarnation.
func followRecord(node string, events []event) (spans []span, faults []string) {
	open := map[recordedClaim]int{} // index of the span that the node hasn't stopped
	for _, e := range events {
		at, ok := open[e.Claim]
		switch {
		case e.Kind == eventHolds && !ok:
			open[e.Claim] = len(spans)
			spans = append(spans, span{node: node, claim: e.Claim, from: e.At, until: e.Until})
		case e.Kind == eventHolds:
			spans[at].until = max(spans[at].until, e.Until)
		case e.Kind == eventStops && ok:
			spans[at].until = min(spans[at].until, e.At)
			delete(open, e.Claim)
		}
	}
	for _, e := range events {
		in := func(s span) bool { return s.claim == e.Claim && s.from <= e.At && e.At < s.until }
		if e.Kind == eventReads && !slices.ContainsFunc(spans, in) {
			faults = append(faults, fmt.Sprintf("%s has read values of %v at %v, and doesn't hold it then", node,
				e.Claim, e.At))
		}
	}
	return spans, faults
}

func TestCheckRecords(t *testing.T) {
	t.Parallel()
	first := recordedClaim{DC: "a", Shard: shard.Interval{First: 5, Last: 9}, Incarnation: 1}
	second, above, overlapping, elsewhere := first, first, first, first
	second.Incarnation = 2
	above.Shard = shard.Interval{First: 10, Last: 12}
	overlapping.Shard = shard.Interval{First: 9, Last: 12}
	elsewhere.DC = "b"
	holds := func(c recordedClaim, from, until time.Duration) event {
		return event{Kind: eventHolds, Claim: c, At: from, Until: until}
	}
	stops := func(c recordedClaim, at time.Duration) event {
		return event{Kind: eventStops, Claim: c, At: at}
	}
	reads := func(c recordedClaim, at time.Duration) event {
		return event{Kind: eventReads, Claim: c, At: at}
	}
	for name, test := range map[string]struct {
		first, other []event
		fault        string // "": none
	}{
		"one after the other": {
			[]event{holds(first, 0, 10), reads(first, 9)},
			[]event{holds(second, 10, 20), reads(second, 10)}, "",
		},
		"at the same time":       {[]event{holds(first, 0, 10)}, []event{holds(second, 9, 20)}, "two nodes for 1ns"},
		"inside of a longer one": {[]event{holds(first, 0, 30)}, []event{holds(second, 9, 12)}, "two nodes for 3ns"},
		"renewed": {
			[]event{holds(first, 0, 10), holds(first, 9, 19)},
			[]event{holds(second, 15, 20)}, "two nodes for 4ns",
		},
		"stopped":             {[]event{holds(first, 0, 10), stops(first, 5)}, []event{holds(second, 5, 20)}, ""},
		"another shard":       {[]event{holds(first, 0, 10)}, []event{holds(above, 0, 20)}, ""},
		"another layout":      {[]event{holds(first, 0, 10)}, []event{holds(overlapping, 0, 20)}, "two nodes for 10ns"},
		"another data centre": {[]event{holds(first, 0, 10)}, []event{holds(elsewhere, 0, 20)}, ""},
		"read before":         {[]event{reads(first, 0), holds(first, 1, 10)}, nil, "doesn't hold it then"},
		"read at the end":     {[]event{holds(first, 0, 10), reads(first, 10)}, nil, "doesn't hold it then"},
		"read after it stopped": {
			[]event{holds(first, 0, 10), stops(first, 5), reads(first, 6)},
			nil, "doesn't hold it then",
		},
		"held by another": {[]event{holds(first, 0, 10), reads(second, 6)}, nil, "doesn't hold it then"},
		"an earlier incarnation": {
			[]event{holds(second, 0, 10)},
			[]event{holds(first, 10, 20)}, "the incarnation falls",
		},
		"held again": {
			[]event{holds(first, 0, 10), stops(first, 12), holds(second, 20, 30), reads(second, 25)},
			nil, "",
		},
		"read in between": {
			[]event{holds(first, 0, 10), stops(first, 12), reads(first, 11), holds(first, 20, 30)},
			nil, "doesn't hold it then",
		},
		"held all the time": {[]event{holds(first, 0, 10), reads(first, 11), holds(first, 20, 30)}, nil, ""},
	} {
		faults := checkRecords(map[string][]event{"one": test.first, "other": test.other})
		if test.fault == "" {
			require.Empty(t, faults, name)
			continue
		}
		require.NotEmpty(t, faults, name)
		require.Contains(t, faults[0], test.fault, name)
	}
}
