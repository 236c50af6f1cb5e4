package function

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/tidwall/btree"

	"github.com/tidemark-dev/tidemark/matchmaking"
)

// CriteriaOptions say how [Criteria] matches.
type CriteriaOptions struct {
	Teams    int // of a match, where its tickets don't say; below 1: 1
	TeamSize int // of a team, where its tickets don't say; below 1: 1
	// Acceptance is mutual where it isn't one-sided.
	Acceptance matchmaking.Acceptance
	// Weights are of the statistics that fitness is computed of. One that isn't above zero doesn't count.
	Weights map[string]float64
	// Widen is in any order. A number that isn't above zero widens nothing.
	Widen []matchmaking.Widening
}

// bounds are what a round's work is cut into.
type bounds struct {
	round  int // after how many looks at tickets a round ends, whose rest is the next round's
	intake int // how many tickets are taken in together, or twice a match where that is more
	first  int // for how many looks each path of the index is tried first
}

var defaultBounds = bounds{round: 1 << 18, intake: 128, first: 64}

// Criteria makes matches of tickets that accept each other.
//
// A ticket accepts another one that has, for every name in its criteria, a statistic that is in one of the ranges it
// gives for that name, ends included. NaN is in none. One without criteria accepts every ticket. Of several statistics
// with one name the last counts. Ranges move outwards as their ticket waits: every widening counts that has come.
//
// The tickets in turn, the oldest first, are a match's seed. Its candidates want the same number of teams and the same
// team size, and the seed accepts them; they accept the seed, where acceptance is mutual; they are younger than the
// seed, where it is one-sided. What candidates think of each other doesn't matter. They are sorted by fitness, which is
// the sum of weight times difference of the statistics, the lowest first, and the older first where it is the same. One
// that lacks a weighted statistic which the seed has, or has one which the seed lacks, comes after those with fewer of
// these. The best of them fill the match, if they are enough. The seed heads the list, with a fitness of 0, and the
// list's members are put in the teams in turn. A proposal's Score is the sum of the list's fitness, negated.
//
// A round costs what has changed. Each ticket that is new, or has widened, is looked up in the index that needs the
// fewest looks for it: tickets by statistic, by the ranges that they accept, or by age. That finds the waiting
// tickets it can be a candidate of. They are searched again only where it may make their candidates enough: each
// keeps a count that is never too low. In matches of two nothing else is searched. In larger ones a new ticket costs
// one step for each waiting ticket that it concerns, and a search for each whose count has come up to a match. New
// tickets are taken in by the hundred, the oldest first, and only the candidates taken in by then are compared. After
// some 250,000 looks a round ends, and Next asks for another one at once.
func Criteria(o CriteriaOptions) matchmaking.Matcher { return newCriteria(o, defaultBounds) }

func newCriteria(o CriteriaOptions, b bounds) *criteria {
	return &criteria{
		bounds:  b,
		rules:   newRules(o),
		queue:   shape{teams: max(o.Teams, 1), size: max(o.TeamSize, 1)},
		entries: make(map[string]*entry),
		groups:  make(map[shape]*group),
		changed: make(map[*group]bool),
		timers: newTree(func(a, b *entry) bool {
			return cmp.Or(a.wake.Compare(b.wake), cmp.Compare(a.serial, b.serial)) < 0
		}),
	}
}

type criteria struct {
	bounds  bounds
	rules   *rules
	queue   shape
	serial  uint64
	entries map[string]*entry // by ticket ID
	groups  map[shape]*group  // none is empty
	changed map[*group]bool   // those that have fresh entries
	timers  *btree.BTreeG[*entry]
	again   time.Time // zero, or that the last round ended before it was through
	looks   int       // at tickets, since ever
}

// Add is Matcher's.
func (c *criteria) Add(t *matchmaking.Ticket) {
	c.Remove(t.ID)
	s := c.queue.of(t)
	g := c.groups[s]
	if g == nil {
		g = newGroup(c, s)
		c.groups[s] = g
	}
	c.serial++
	e := newEntry(t, c.serial)
	e.group = g
	c.entries[t.ID] = e
	g.fresh.Set(e)
	c.changed[g] = true
}

// Remove is Matcher's.
func (c *criteria) Remove(id string) {
	if e := c.entries[id]; e != nil {
		c.remove(e)
	}
}

func (c *criteria) remove(e *entry) {
	delete(c.entries, e.ticket.ID)
	c.withdraw(e)
	e.gone = true
	if g := e.group; g.len() == 0 {
		delete(c.groups, g.shape)
		delete(c.changed, g)
	}
}

// withdraw takes an entry out of wherever it waits.
func (c *criteria) withdraw(e *entry) {
	if !e.indexed {
		e.group.fresh.Delete(e)
		return
	}
	e.group.index.remove(e)
	if !e.wake.IsZero() {
		c.timers.Delete(e)
	}
}

// Match is Matcher's. It fails only where ctx has ended before it starts; where ctx ends later, it gives what it has.
func (c *criteria) Match(ctx context.Context, now time.Time) ([]matchmaking.Proposal, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c.widen(now)
	c.again = time.Time{}
	end := c.looks + c.bounds.round
	var proposals []matchmaking.Proposal
	for _, g := range slices.SortedFunc(maps.Keys(c.changed), func(a, b *group) int { return a.shape.compare(b.shape) }) {
		for g.fresh.Len() > 0 && g.len() >= g.players {
			if c.looks >= end || ctx.Err() != nil {
				c.again = now
				return proposals, nil
			}
			proposals = append(proposals, g.takeIn(now)...)
		}
		delete(c.changed, g)
	}
	return proposals, nil
}

// widen makes those entries fresh whose ranges have become wider.
func (c *criteria) widen(now time.Time) {
	for {
		e, ok := c.timers.Min()
		if !ok || e.wake.After(now) {
			return
		}
		c.withdraw(e)
		e.group.fresh.Set(e)
		c.changed[e.group] = true
	}
}

// Next is Matcher's: when the ranges of a waiting ticket widen, or the time of the last round, where that ended before
// it was through.
func (c *criteria) Next() time.Time {
	if !c.again.IsZero() {
		return c.again
	}
	if e, ok := c.timers.Min(); ok {
		return e.wake
	}
	return time.Time{}
}
