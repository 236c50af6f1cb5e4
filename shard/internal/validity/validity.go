// Package validity checks what the nodes of a read tier have recorded of their claims: no part of a data centre's keys has two nodes
// that may answer for it at a time, and no values are read outside of the time in which their node may answer. A [Recorder] records
// what a node does, and [Check] holds the records of all nodes against each other.
package validity

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/tidemark-dev/tidemark/shard"
)

// Claim is a shard that a node has claimed.
type Claim struct {
	DC          string
	Shard       shard.Interval
	Incarnation uint64
}

func (c Claim) String() string {
	return fmt.Sprintf("%s %v, incarnation %d", c.DC, c.Shard, c.Incarnation)
}

// Kind is what happened.
type Kind string

// Kinds of events.
const (
	Holds Kind = "holds" // the node may answer for the shard until Until
	Stops Kind = "stops" // it doesn't answer any longer
	Reads Kind = "reads" // it has read values, with which it has answered
)

// Event is what a node has recorded. Its times are of a clock that all nodes share.
type Event struct {
	Kind  Kind
	Claim Claim
	At    time.Duration
	Until time.Duration // of Holds
}

// span is a time in which a node may answer.
type span struct {
	node        string
	claim       Claim
	from, until time.Duration
}

func (s span) String() string {
	return fmt.Sprintf("%s has %v from %v until %v", s.node, s.claim, s.from, s.until)
}

// Check returns what is wrong with the records of nodes, by the name of the node. A node that was started again is another node.
func Check(records map[string][]Event) (faults []string) {
	var all []span
	for node, events := range records {
		spans, wrong := follow(node, events)
		all, faults = append(all, spans...), append(faults, wrong...)
	}
	slices.SortFunc(all, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	for i, a := range all {
		for _, b := range all[i+1:] {
			switch {
			case a.claim.DC != b.claim.DC, a.claim.Shard.Last < b.claim.Shard.First, b.claim.Shard.Last < a.claim.Shard.First:
			case a.node != b.node && b.from < a.until:
				faults = append(faults, fmt.Sprintf("two nodes for %v: %v; %v", min(a.until, b.until)-b.from, a, b))
			case a.claim.Shard == b.claim.Shard && b.claim.Incarnation < a.claim.Incarnation:
				faults = append(faults, fmt.Sprintf("the incarnation falls: %v; %v", a, b))
			}
		}
	}
	return faults
}

// follow returns the times in which a node may answer, and which values it has read outside of them. A claim that it holds again
// without having stopped was held all the time: otherwise it would have another incarnation.
func follow(node string, events []Event) (spans []span, faults []string) {
	open := map[Claim]int{} // index of the span that the node hasn't stopped
	for _, e := range events {
		at, ok := open[e.Claim]
		switch {
		case e.Kind == Holds && !ok:
			open[e.Claim] = len(spans)
			spans = append(spans, span{node: node, claim: e.Claim, from: e.At, until: e.Until})
		case e.Kind == Holds:
			spans[at].until = max(spans[at].until, e.Until)
		case e.Kind == Stops && ok:
			spans[at].until = min(spans[at].until, e.At)
			delete(open, e.Claim)
		}
	}
	for _, e := range events {
		in := func(s span) bool { return s.claim == e.Claim && s.from <= e.At && e.At < s.until }
		if e.Kind == Reads && !slices.ContainsFunc(spans, in) {
			faults = append(faults, fmt.Sprintf("%s has read values of %v at %v, and doesn't hold it then", node, e.Claim, e.At))
		}
	}
	return spans, faults
}
