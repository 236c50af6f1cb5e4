package function

import (
	"slices"
	"time"

	"github.com/tidwall/btree"

	"github.com/tidemark-dev/tidemark/matchmaking"
)

// group is tickets that want matches of the same shape.
//
// After each intake no match can be made of the entries in its index, and each knows how many candidates it has there
// at most. An intake says for each newcomer which entries it may be a candidate of: their causes. Only those are
// searched, beside the newcomers, whose number and causes come up to a match.
type group struct {
	owner   *criteria
	shape   shape
	players int
	fresh   *btree.BTreeG[*entry] // not taken in yet, the oldest first
	index   *index                // those that were
}

func newGroup(c *criteria, s shape) *group {
	return &group{
		owner: c, shape: s, players: s.players(),
		fresh: newTree(func(a, b *entry) bool { return compareAge(a, b) < 0 }),
		index: newIndex(c.bounds.first, &c.looks),
	}
}

// len gives how many wait.
func (g *group) len() int { return g.fresh.Len() + g.index.byAge.Len() }

// takeIn takes the oldest fresh entries into the index, and proposes the matches that they make possible.
func (g *group) takeIn(now time.Time) []matchmaking.Proposal {
	newcomers := g.newcomers(now)
	concerned := g.concern(newcomers)
	g.index.add(newcomers)
	for _, e := range newcomers {
		if !e.wake.IsZero() {
			g.owner.timers.Set(e)
		}
	}
	var proposals []matchmaking.Proposal
	for _, seed := range g.seeds(newcomers, concerned) {
		if seed.gone {
			continue
		}
		if candidates := g.candidates(seed); len(candidates) >= g.players-1 {
			proposals = append(proposals, g.propose(seed, candidates))
		}
	}
	for _, e := range concerned {
		e.found += len(e.live())
		e.causes = nil
	}
	return proposals
}

func (g *group) newcomers(now time.Time) []*entry {
	some := make([]*entry, 0, min(g.fresh.Len(), max(g.owner.bounds.intake, 2*g.players)))
	for len(some) < cap(some) {
		e, _ := g.fresh.PopMin()
		e.widen(g.owner.rules, now)
		e.newcomer = true
		some = append(some, e)
	}
	return some
}

// concern tells the entries in the index which newcomers may be candidates of theirs, and gives those entries.
func (g *group) concern(newcomers []*entry) []*entry {
	enough := 0
	if g.players == 2 {
		// Each of these entries makes a match with some newcomer, unless it is taken first. So if a newcomer isn't
		// taken by one of its oldest, as many as there are newcomers, then all newcomers are taken.
		enough = len(newcomers)
	}
	var concerned []*entry
	for _, x := range newcomers {
		for _, e := range g.index.seeds(g.owner.rules, x, enough) {
			if e.causes == nil {
				concerned = append(concerned, e)
			}
			e.causes = append(e.causes, x)
		}
	}
	return concerned
}

// seeds gives the entries that may have enough candidates, the oldest first.
func (g *group) seeds(newcomers, concerned []*entry) []*entry {
	all := slices.Clone(newcomers)
	for _, e := range concerned {
		if e.found+len(e.causes) >= g.players-1 {
			all = append(all, e)
		}
	}
	slices.SortFunc(all, compareAge)
	return all
}

// candidates gives a seed's candidates, or fewer than a match needs.
func (g *group) candidates(seed *entry) []*entry {
	if !seed.newcomer {
		causes := seed.live()
		if seed.found+len(causes) < g.players-1 || g.players == 2 {
			return causes
		}
	}
	all := g.index.candidates(g.owner.rules, seed)
	seed.newcomer, seed.found, seed.causes = false, len(all), nil
	return all
}

// propose takes a seed and its best candidates out.
func (g *group) propose(seed *entry, candidates []*entry) matchmaking.Proposal {
	line := g.owner.rules.line(seed, candidates, g.players)
	p := matchmaking.Proposal{ID: newMatchID(), Teams: make([][]*matchmaking.Ticket, g.shape.teams)}
	for i, team := range alternate(line, g.shape.teams) {
		p.Teams[i] = make([]*matchmaking.Ticket, len(team))
		for j, member := range team {
			p.Teams[i][j] = member.ticket
		}
	}
	for _, member := range line {
		p.Score -= member.fitness.value
		g.owner.remove(member.entry)
	}
	return p
}
