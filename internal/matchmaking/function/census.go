package function

import (
	"maps"
	"slices"

	"github.com/tidwall/btree"
)

// census is the entries in the index of a group with parties, by their number of players.
//
// With parties, enough candidates are not always a match. So an entry knows the number of its candidates of each size,
// up to the number that a match has room for. Entries with fewer are open to that size: they are notified of each added
// or removed entry of the size. For the others the number is an upper bound. An entry is searched only if these numbers
// allow a match. So in a crowd of parties that don't fit each other, one more costs a few steps.
type census struct {
	form   match
	rules  *rules
	index  *index
	bySize []*btree.BTreeG[*entry] // by players; nil: there was none
	open   []*btree.BTreeG[*entry] // those that are open to a size; nil: there was none
	counts map[*entry][]int        // known candidates of an entry, by their number of players

	lone    int   // size of the last entry for which there was no match
	without []int // candidates that it knew then, by their number of players
}

// meet creates a census of the group if a newcomer represents several players, and prepares it for the sizes of all
// newcomers.
func (g *group) meet(newcomers []*entry) {
	for _, e := range newcomers {
		n := e.ticket.Party()
		if g.census == nil && n > 1 {
			g.census = &census{form: g.form, rules: g.owner.rules, index: g.index, counts: map[*entry][]int{}}
			g.index.byAge.Scan(func(e *entry) bool {
				g.census.counts[e] = []int{0, min(int(e.found), g.census.room(1))}
				return true
			})
			g.census.meet(1)
			g.index.byAge.Scan(func(e *entry) bool {
				g.census.bySize[1].Set(e)
				return true
			})
		}
		if g.census != nil {
			g.census.meet(n)
		}
	}
}

// meet prepares the census for entries of a size. Those in the index are open to it, unless they know better.
func (c *census) meet(n int) {
	for len(c.open) <= n {
		c.open, c.bySize = append(c.open, nil), append(c.bySize, nil)
	}
	if c.open[n] != nil {
		return
	}
	byAge := func(a, b *entry) bool { return compareAge(a, b) < 0 }
	c.open[n], c.bySize[n] = newTree(byAge), newTree(byAge)
	c.index.byAge.Scan(func(e *entry) bool {
		c.setCount(e, n, c.candidates(e, n))
		return true
	})
}

// room returns how many parties of a size a match has room for.
func (c *census) room(n int) int { return c.form.Teams * (c.form.Size / n) }

// candidates returns the number of an entry's known candidates of a size.
func (c *census) candidates(e *entry, n int) int {
	if counts := c.counts[e]; n < len(counts) {
		return counts[n]
	}
	return 0
}

// adjust adds 1 or -1 to the known candidates of a size of an entry that is open to it.
func (c *census) adjust(e *entry, n, number int) {
	counts := c.counts[e]
	if count := c.candidates(e, n) + number; n >= len(counts) || count == c.room(n) {
		c.setCount(e, n, count)
	} else {
		counts[n] = count
	}
}

// setCount sets the number of known candidates of a size of an entry.
func (c *census) setCount(e *entry, n, candidates int) {
	counts := c.counts[e]
	for len(counts) <= n {
		counts = append(counts, 0)
	}
	counts[n] = min(candidates, c.room(n))
	c.counts[e] = counts
	if counts[n] < c.room(n) {
		c.open[n].Set(e)
	} else {
		c.open[n].Delete(e)
	}
}

// add adds entries that are in the index now.
func (c *census) add(newcomers []*entry) {
	for _, e := range newcomers {
		c.bySize[e.ticket.Party()].Set(e)
	}
}

// notify notifies the entries in the index of newcomers, and returns the notified ones.
func (c *census) notify(newcomers []*entry) []*entry {
	affected := map[*entry]bool{}
	for _, x := range newcomers {
		for _, e := range c.openTo(x) {
			c.adjust(e, x.ticket.Party(), 1)
			affected[e] = true
		}
	}
	return slices.Collect(maps.Keys(affected))
}

// remove removes an entry that is not in the index any more.
func (c *census) remove(x *entry) {
	n := x.ticket.Party()
	c.bySize[n].Delete(x)
	delete(c.counts, x)
	for _, open := range c.open {
		if open != nil {
			open.Delete(x)
		}
	}
	for _, e := range c.openTo(x) {
		c.adjust(e, n, -1)
	}
}

// openTo returns the entries that an entry is a candidate of, and that are open to its size.
func (c *census) openTo(x *entry) []*entry {
	n := x.ticket.Party()
	paths := []path{c.index.accepting(x)}
	if !c.rules.oneSided {
		paths = append(paths, c.index.required(x)...)
	}
	return c.index.race(append(paths, c.open[n].Scan), 0, func(e *entry) bool {
		return !e.newcome && c.candidates(e, n) < c.room(n) && c.rules.accept(e, x)
	})
}

// count counts the candidates of an entry, by their size.
func (c *census) count(seed *entry) {
	for n, all := range c.bySize {
		if all == nil {
			continue
		}
		paths := c.index.required(seed)
		if !c.rules.oneSided {
			paths = append(paths, c.index.accepting(seed))
		}
		found := c.index.race(append(paths, all.Scan), c.room(n), func(e *entry) bool {
			return e.ticket.Party() == n && c.rules.accept(seed, e)
		})
		c.setCount(seed, n, len(found))
	}
}

// plan returns the sizes of the parties of a full match with an entry and its candidates; nil: there is none. Many
// entries of a large crowd are alike: the result for the last one without a plan needn't be computed again.
func (c *census) plan(e *entry) [][]int {
	n := e.ticket.Party()
	if n == c.lone && slices.Equal(c.counts[e], c.without) {
		return nil
	}
	plan := c.form.Plan(n, c.counts[e])
	if plan == nil {
		c.lone, c.without = n, append(c.without[:0], c.counts[e]...)
	}
	return plan
}

// match returns the members of the best match of a seed, by team; nil: there is no match.
func (c *census) match(seed *entry) [][]ranked {
	if seed.newcome {
		seed.newcome = false
		c.count(seed)
	}
	if c.plan(seed) == nil {
		return nil
	}
	line := c.rules.line(seed, c.index.candidates(c.rules, seed))
	if teams := c.inTurn(line); teams != nil {
		return teams
	}
	c.count(seed) // some of the numbers may have been upper bounds
	if plan := c.plan(seed); plan != nil {
		return planned(line, plan)
	}
	return nil
}

// inTurn assigns each member of a line to the next team with enough free slots, and omits members for whom there is
// none. It returns nil if a slot is left.
func (c *census) inTurn(line []ranked) [][]ranked {
	seats, teams := c.form.Seats(), make([][]ranked, c.form.Teams)
	for _, member := range line {
		if team, ok := seats.Seat(member.ticket.Party()); ok {
			teams[team] = append(teams[team], member)
		}
		if seats.Remaining == 0 {
			return teams
		}
	}
	return nil
}

// planned returns the first members of a line of the sizes of a plan.
func planned(line []ranked, plan [][]int) [][]ranked {
	var bySize [][]ranked
	for _, member := range line {
		n := member.ticket.Party()
		for len(bySize) <= n {
			bySize = append(bySize, nil)
		}
		bySize[n] = append(bySize[n], member)
	}
	teams := make([][]ranked, len(plan))
	for i, sizes := range plan {
		for _, n := range sizes {
			teams[i] = append(teams[i], bySize[n][0])
			bySize[n] = bySize[n][1:]
		}
	}
	return teams
}
