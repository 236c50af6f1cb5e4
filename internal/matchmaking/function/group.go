package function

import (
	"slices"
	"time"

	"github.com/tidwall/btree"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

// group is the tickets whose matches have the same form.
//
// After each intake, no match of the entries in the index is possible, and each entry has an upper bound of the number
// of its candidates there. An intake finds, for each newcomer, the entries that it is a candidate of, and adds it to
// their causes. Besides the newcomers, only those entries are searched whose bound and causes together are enough for a
// match.
type group struct {
	owner   *criteria
	form    match
	players int                   // of a match
	waiting int                   // players of all entries
	fresh   *btree.BTreeG[*entry] // not in the index yet, the oldest first
	index   *index                // of all others
	causes  map[*entry][]*entry   // newcomers of the current intake, by the entries that they are candidates of
	census  *census               // of the entries in the index; nil while none has stood for several players
}

func newGroup(c *criteria, m match) *group {
	return &group{
		owner: c, form: m, players: m.Players(),
		fresh: newTree(func(a, b *entry) bool { return compareAge(a, b) < 0 }),
		index: newIndex(c.bounds.first, &c.steps),
	}
}

// addNewcomers moves the oldest fresh entries to the index, and proposes the matches that they make possible.
func (g *group) addNewcomers(now time.Time) []matchmaking.Proposal {
	newcomers := g.newcomers(now)
	affected := g.notify(newcomers)
	g.index.add(newcomers)
	if g.census != nil {
		g.census.add(newcomers)
	}
	for _, e := range newcomers {
		if e.wake > 0 {
			g.owner.timers.Set(e)
		}
	}
	var proposals []matchmaking.Proposal
	for _, seed := range g.seeds(newcomers, affected) {
		if seed.removed {
			continue
		}
		if teams := g.match(seed); teams != nil {
			proposals = append(proposals, g.propose(teams))
		}
	}
	for e := range g.causes {
		e.found += int32(len(g.live(e)))
	}
	g.causes = nil
	return proposals
}

func (g *group) newcomers(now time.Time) []*entry {
	entries := make([]*entry, 0, min(g.fresh.Len(), max(g.owner.bounds.intake, 2*g.players)))
	for len(entries) < cap(entries) {
		e, _ := g.fresh.PopMin()
		e.widen(g.owner.rules, now)
		e.newcome = true
		entries = append(entries, e)
	}
	g.meet(entries)
	return entries
}

// notify adds newcomers to the causes of the entries in the index that they are candidates of, and returns those
// entries.
func (g *group) notify(newcomers []*entry) []*entry {
	if g.census != nil {
		return g.census.notify(newcomers)
	}
	enough := 0
	if g.players == 2 {
		// Each of these entries is matched with some newcomer, unless it is matched before. So if a newcomer
		// has as many of them as there are newcomers, and none takes it, then all newcomers are taken.
		enough = len(newcomers)
	}
	var affected []*entry
	g.causes = make(map[*entry][]*entry)
	for _, x := range newcomers {
		for _, e := range g.index.seeds(g.owner.rules, x, enough) {
			if g.causes[e] == nil {
				affected = append(affected, e)
			}
			g.causes[e] = append(g.causes[e], x)
		}
	}
	return affected
}

// seeds returns the entries that may have enough candidates, the oldest first.
func (g *group) seeds(newcomers, affected []*entry) []*entry {
	all := slices.Clone(newcomers)
	for _, e := range affected {
		if g.mayMatch(e) {
			all = append(all, e)
		}
	}
	slices.SortFunc(all, compareAge)
	return all
}

func (g *group) mayMatch(e *entry) bool {
	if g.census != nil {
		return g.census.plan(e) != nil
	}
	return int(e.found)+len(g.causes[e]) >= g.players-1
}

// match returns the members of the best match of a seed, by team; nil: there is no match.
func (g *group) match(seed *entry) [][]ranked {
	if g.census != nil {
		return g.census.match(seed)
	}
	candidates := g.candidates(seed)
	if len(candidates) < g.players-1 {
		return nil
	}
	return alternate(g.owner.rules.line(seed, candidates)[:g.players], g.form.Teams)
}

// candidates returns a seed's candidates, or some of them if they are too few for a match.
func (g *group) candidates(seed *entry) []*entry {
	if !seed.newcome {
		causes := g.live(seed)
		if int(seed.found)+len(causes) < g.players-1 || g.players == 2 {
			return causes
		}
	}
	all := g.index.candidates(g.owner.rules, seed)
	seed.newcome, seed.found = false, int32(len(all))
	delete(g.causes, seed)
	return all
}

// live removes the causes of an entry that no longer wait, and returns the others.
func (g *group) live(e *entry) []*entry {
	causes := slices.DeleteFunc(g.causes[e], func(x *entry) bool { return x.removed })
	g.causes[e] = causes
	return causes
}

// propose removes the members of a match, and returns them as a proposal.
func (g *group) propose(teams [][]ranked) matchmaking.Proposal {
	p := matchmaking.Proposal{Teams: make([][]*matchmaking.Ticket, len(teams))}
	for i, team := range teams {
		p.Teams[i] = make([]*matchmaking.Ticket, len(team))
		for j, member := range team {
			p.Teams[i][j] = member.ticket
			p.Score -= member.fitness.value
			g.owner.remove(member.entry)
		}
	}
	return p
}
