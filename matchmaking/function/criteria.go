package function

import (
	"github.com/tidemark-dev/tidemark/matchmaking"
)

// OptionsOf returns the parameters that a definition has.
func OptionsOf(m matchmaking.Match) CriteriaOptions {
	return CriteriaOptions{Teams: m.Teams, TeamSize: m.TeamSize, Acceptance: m.Acceptance, Weights: m.Weights,
		Widen: m.Widen}
}

// Criteria returns a Matcher that matches tickets that accept each other.
//
// A ticket accepts another one that has, for every name in its criteria, a statistic within one of the ranges that it
// has for that name, including the ends. No range contains NaN. A ticket without criteria accepts every ticket. If a
// ticket has several statistics of one name, the last one counts. The ranges of a waiting ticket grow by the sum of all
// widenings whose time has come.
//
// Each ticket in turn, the oldest first, is the seed of a match. Its candidates have the same number of teams and the
// same team size, and the seed accepts them. With mutual acceptance they also accept the seed; with one-sided
// acceptance they are younger than the seed. Candidates need not accept each other. The seed is matched with the
// candidates of the lowest fitness, if there are enough. Fitness is the sum of weight times difference over the
// statistics. Candidates are ordered by the number of weighted statistics that only one of the two tickets has, then by
// fitness, then by age. Seed and candidates are assigned to the teams in turn, in that order. A proposal's Score is the
// negated sum of the fitness.
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
// ticket that accepts it and knows of fewer candidates of its size than a match has room for, and a match one step for
// each candidate of its seed. A round ends after about 250,000 steps, and Next then asks for another at once.
func Criteria(o CriteriaOptions) matchmaking.Matcher { return newCriteriaMatcher(o) }
