package validity_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/shard"
	"github.com/tidemark-dev/tidemark/shard/internal/validity"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	first := validity.Claim{DC: "a", Shard: shard.Interval{First: 5, Last: 9}, Incarnation: 1}
	second, above, overlapping, elsewhere := first, first, first, first
	second.Incarnation = 2
	above.Shard = shard.Interval{First: 10, Last: 12}
	overlapping.Shard = shard.Interval{First: 9, Last: 12}
	elsewhere.DC = "b"
	holds := func(c validity.Claim, from, until time.Duration) validity.Event {
		return validity.Event{Kind: validity.Holds, Claim: c, At: from, Until: until}
	}
	stops := func(c validity.Claim, at time.Duration) validity.Event {
		return validity.Event{Kind: validity.Stops, Claim: c, At: at}
	}
	reads := func(c validity.Claim, at time.Duration) validity.Event {
		return validity.Event{Kind: validity.Reads, Claim: c, At: at}
	}
	for name, test := range map[string]struct {
		one, other []validity.Event
		fault      string // "": none
	}{
		"one after the other":    {[]validity.Event{holds(first, 0, 10), reads(first, 9)}, []validity.Event{holds(second, 10, 20), reads(second, 10)}, ""},
		"at the same time":       {[]validity.Event{holds(first, 0, 10)}, []validity.Event{holds(second, 9, 20)}, "two nodes for 1ns"},
		"inside of a longer one": {[]validity.Event{holds(first, 0, 30)}, []validity.Event{holds(second, 9, 12)}, "two nodes for 3ns"},
		"renewed":                {[]validity.Event{holds(first, 0, 10), holds(first, 9, 19)}, []validity.Event{holds(second, 15, 20)}, "two nodes for 4ns"},
		"stopped":                {[]validity.Event{holds(first, 0, 10), stops(first, 5)}, []validity.Event{holds(second, 5, 20)}, ""},
		"another shard":          {[]validity.Event{holds(first, 0, 10)}, []validity.Event{holds(above, 0, 20)}, ""},
		"another layout":         {[]validity.Event{holds(first, 0, 10)}, []validity.Event{holds(overlapping, 0, 20)}, "two nodes for 10ns"},
		"another data centre":    {[]validity.Event{holds(first, 0, 10)}, []validity.Event{holds(elsewhere, 0, 20)}, ""},
		"read before":            {[]validity.Event{reads(first, 0), holds(first, 1, 10)}, nil, "doesn't hold it then"},
		"read at the end":        {[]validity.Event{holds(first, 0, 10), reads(first, 10)}, nil, "doesn't hold it then"},
		"read after it stopped":  {[]validity.Event{holds(first, 0, 10), stops(first, 5), reads(first, 6)}, nil, "doesn't hold it then"},
		"held by another":        {[]validity.Event{holds(first, 0, 10), reads(second, 6)}, nil, "doesn't hold it then"},
		"an earlier incarnation": {[]validity.Event{holds(second, 0, 10)}, []validity.Event{holds(first, 10, 20)}, "the incarnation falls"},
		"held again":             {[]validity.Event{holds(first, 0, 10), stops(first, 12), holds(second, 20, 30), reads(second, 25)}, nil, ""},
		"read in between":        {[]validity.Event{holds(first, 0, 10), stops(first, 12), reads(first, 11), holds(first, 20, 30)}, nil, "doesn't hold it then"},
		"held all the time":      {[]validity.Event{holds(first, 0, 10), reads(first, 11), holds(first, 20, 30)}, nil, ""},
	} {
		faults := validity.Check(map[string][]validity.Event{"one": test.one, "other": test.other})
		if test.fault == "" {
			require.Empty(t, faults, name)
			continue
		}
		require.NotEmpty(t, faults, name)
		require.Contains(t, faults[0], test.fault, name)
	}
}
