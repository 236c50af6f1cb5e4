package function

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/tidwall/btree"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

// CriteriaOptions are the parameters of Criteria.
type CriteriaOptions struct {
	Teams      int                    // of a match, unless its tickets set it; at least 1
	TeamSize   int                    // unless the tickets set it; at least 1
	Acceptance matchmaking.Acceptance // mutual unless it is AcceptOneSided
	Weights    map[string]float64     // of statistics, for the fitness; only positive ones count
	Widen      []matchmaking.Widening // in any order; only positive amounts count
}

// OptionsOf returns the parameters of a definition.
func OptionsOf(m matchmaking.Match) CriteriaOptions {
	return CriteriaOptions{Teams: m.Teams, TeamSize: m.TeamSize, Acceptance: m.Acceptance, Weights: m.Weights,
		Widen: m.Widen}
}

// Criteria returns a Matcher that matches tickets that accept each other.
//
// A ticket accepts another one that has, for every name in its criteria, a statistic within one of the ranges that it
// has for that name, including the ends. No range contains NaN. A ticket without criteria accepts every ticket. If a
// ticket has several statistics of one name, the last one counts. The ranges of a waiting ticket grow by the sum of all
// widenings that are due.
//
// Each ticket in turn, the oldest first, is the seed of a match. Its candidates have the same number of teams and the
// same team size, and the seed accepts them. With mutual acceptance they also accept the seed. Candidates need not
// accept each other. The seed is matched with the candidates of the lowest fitness, if there are enough. Fitness is
// the sum of weight times difference over the statistics. Candidates are ordered by the number of weighted statistics
// that only one of the two tickets has, then by fitness, then by age. Seed and candidates are assigned to the teams in
// turn, in that order. A proposal's Score is the negated sum of the fitness.
//
// Sizes of teams are counted in players. A ticket of several players is assigned to the first team, in turn, with
// enough free slots; candidates for which there is none are passed over. All teams of a match are full. If that leaves
// a slot, the match is the seed and others who fill the teams exactly, the largest parties first, the best of each
// size. If there are none, the seed continues to wait. A ticket of more players than a team is never matched.
//
// The cost of a round grows with the number of changes, not of waiting tickets. Each ticket that is new, or whose
// ranges have grown, is looked up in an index, which finds the waiting tickets that it is a candidate of. Only those
// are searched again that may now have enough candidates: each ticket has a count that is never too low. In matches of
// two, nothing else is searched. In larger matches, a new ticket costs one step for each waiting ticket that accepts
// it, and a search for each whose count reaches the size of a match. New tickets are added by the hundred, the oldest
// first, and only the candidates added by then are compared. With parties, a new ticket costs one step for each waiting
// ticket that accepts it and has fewer known candidates of its size than a match has room for, and a match costs one
// step for each candidate of its seed. A round ends after about 250,000 steps, and Next then asks for another at once.
func Criteria(o CriteriaOptions) matchmaking.Matcher { return newCriteria(o, defaultBounds) }

// bounds limit how much work is done at a time. One step examines one ticket.
type bounds struct {
	round  int // steps after which a round ends; the next round continues
	intake int // new tickets that are added to the index together, or those of two matches if that is more
	first  int // steps for which each path of the index is tried first
}

var defaultBounds = bounds{round: 1 << 18, intake: 128, first: 64}

func newCriteria(o CriteriaOptions, b bounds) *criteria {
	return &criteria{
		bounds:  b,
		rules:   newRules(o),
		queue:   match{Teams: max(o.Teams, 1), Size: max(o.TeamSize, 1)},
		entries: make(map[string]*entry),
		groups:  make(map[match]*group),
		changed: make(map[*group]bool),
		timers: newTree(func(a, b *entry) bool {
			return cmp.Or(a.wakes().Compare(b.wakes()), cmp.Compare(a.serial, b.serial)) < 0
		}),
	}
}

type criteria struct {
	bounds  bounds
	rules   *rules
	queue   match
	serial  uint64
	entries map[string]*entry // by ticket ID
	groups  map[match]*group  // no group is empty
	changed map[*group]bool   // those with fresh entries
	timers  *btree.BTreeG[*entry]
	again   time.Time // of the last round, if that ended early; else zero
	steps   int       // since the Matcher was made
}

// Add implements Matcher.
func (c *criteria) Add(t *matchmaking.Ticket) {
	c.Remove(t.ID)
	s := c.queue.With(t.NumTeams, t.TeamSize)
	if t.Party() > s.Size {
		return
	}
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
	g.waiting += t.Party()
	c.changed[g] = true
}

// Remove implements Matcher.
func (c *criteria) Remove(id string) {
	if e := c.entries[id]; e != nil {
		c.remove(e)
	}
}

func (c *criteria) remove(e *entry) {
	delete(c.entries, e.ticket.ID)
	c.withdraw(e)
	e.removed = true
	g := e.group
	if g.waiting -= e.ticket.Party(); g.waiting == 0 {
		delete(c.groups, g.form)
		delete(c.changed, g)
	}
}

// withdraw removes an entry from where it waits: the fresh ones, or the index.
func (c *criteria) withdraw(e *entry) {
	if !e.indexed {
		e.group.fresh.Delete(e)
		return
	}
	e.group.index.remove(e)
	if e.group.census != nil {
		e.group.census.remove(e)
	}
	if e.wake > 0 {
		c.timers.Delete(e)
	}
}

// Match implements Matcher. It fails only if ctx has ended before. If ctx ends later, it returns what it has so far.
func (c *criteria) Match(ctx context.Context, now time.Time) ([]matchmaking.Proposal, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c.widen(now)
	c.again = time.Time{}
	end := c.steps + c.bounds.round
	var proposals []matchmaking.Proposal
	for _, g := range slices.SortedFunc(maps.Keys(c.changed), func(a, b *group) int { return a.form.Compare(b.form) }) {
		for g.fresh.Len() > 0 && g.waiting >= g.players {
			if c.steps >= end || ctx.Err() != nil {
				c.again = now
				return proposals, nil
			}
			proposals = append(proposals, g.addNewcomers(now)...)
		}
		delete(c.changed, g)
	}
	return proposals, nil
}

// widen makes the entries fresh whose ranges have grown.
func (c *criteria) widen(now time.Time) {
	for {
		e, ok := c.timers.Min()
		if !ok || e.wakes().After(now) {
			return
		}
		c.withdraw(e)
		e.group.fresh.Set(e)
		c.changed[e.group] = true
	}
}

// Next implements Matcher: it returns when the ranges of a waiting ticket grow, or the time of the last round if that
// ended early.
func (c *criteria) Next() time.Time {
	if !c.again.IsZero() {
		return c.again
	}
	if e, ok := c.timers.Min(); ok {
		return e.wakes()
	}
	return time.Time{}
}
