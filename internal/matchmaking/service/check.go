package service

import (
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

// check returns an error unless a queue accepts a ticket, regardless of its size. Errors: fault.SlugInvalidTicket; the
// field is a JSON pointer.
func (n *NewTicket) check(d *matchmaking.Definition) error {
	if n.ID != "" {
		if err := matchmaking.CheckChosenID(n.ID); err != nil {
			return err
		}
	}
	if len(n.Owner) > matchmaking.MaxOwnerBytes || !utf8.ValidString(n.Owner) {
		return matchmaking.InvalidTicket("", "the owner must be UTF-8 of at most %d bytes", matchmaking.MaxOwnerBytes)
	}
	if err := n.checkTTL(d); err != nil {
		return err
	}
	return checkSpec(&n.Spec, &d.Match)
}

func (n *NewTicket) checkTTL(d *matchmaking.Definition) error {
	switch {
	case n.TTL == 0 && n.PersistentTTL != 0 && n.PersistentTTL < matchmaking.MinLifetime:
		return matchmaking.InvalidTicket("/persistentField/ttl",
			"the ttl in persistentField must be at least %s, not %s",
			time.Duration(matchmaking.MinLifetime), n.PersistentTTL)
	case n.TTL == 0:
		return nil
	case n.TTL < matchmaking.MinLifetime:
		return matchmaking.InvalidTicket("/ttl", "ttl must be at least %s, not %s",
			time.Duration(matchmaking.MinLifetime), n.TTL)
	case n.TTL > d.TicketTTL.Std():
		return matchmaking.InvalidTicket("/ttl", "ttl must be at most %s in this queue, not %s", d.TicketTTL, n.TTL)
	}
	return nil
}

func checkSpec(s *matchmaking.Spec, m *matchmaking.Match) error {
	if n := len(s.Criteria); n > matchmaking.MaxCriteria {
		return matchmaking.InvalidTicket("/criteria", "a ticket has at most %d criteria, not %d", matchmaking.MaxCriteria,
			n)
	}
	if n := len(s.Statistics); n > matchmaking.MaxStatistics {
		return matchmaking.InvalidTicket("/statistics", "a ticket has at most %d statistics, not %d",
			matchmaking.MaxStatistics, n)
	}
	for i, c := range s.Criteria {
		at := fmt.Sprintf("/criteria/%d", i)
		switch {
		case c.Name == "":
			return matchmaking.InvalidTicket(at+"/name", "the name of the criterion must not be empty")
		case !finite(c.MinValue) || !finite(c.MaxValue):
			return matchmaking.InvalidTicket(at, "the range of the criterion %q must be finite", c.Name)
		case c.MinValue > c.MaxValue:
			return matchmaking.InvalidTicket(at, "minValue of the criterion %q must be at most maxValue, %v, not %v",
				c.Name, c.MaxValue, c.MinValue)
		}
	}
	for i, st := range s.Statistics {
		at := fmt.Sprintf("/statistics/%d", i)
		switch {
		case st.Name == "":
			return matchmaking.InvalidTicket(at+"/name", "the name of the statistic must not be empty")
		case !finite(st.Value):
			return matchmaking.InvalidTicket(at+"/value", "the statistic %q must be finite", st.Name)
		}
	}
	return checkTeams(s, m)
}

func checkTeams(s *matchmaking.Spec, m *matchmaking.Match) error {
	switch {
	case s.NumTeams < 0 || s.NumTeams > matchmaking.MaxMatchTickets:
		return matchmaking.InvalidTicket("/numTeams", "numTeams must be 1 to %d, or 0 for the queue's, not %d",
			matchmaking.MaxMatchTickets, s.NumTeams)
	case s.TeamSize < 0 || s.TeamSize > matchmaking.MaxMatchTickets:
		return matchmaking.InvalidTicket("/teamSize", "teamSize must be 1 to %d, or 0 for the queue's, not %d",
			matchmaking.MaxMatchTickets, s.TeamSize)
	}
	teams, size := m.Teams, m.TeamSize
	if s.NumTeams > 0 {
		teams = s.NumTeams
	}
	if s.TeamSize > 0 {
		size = s.TeamSize
	}
	if teams*size > matchmaking.MaxMatchTickets {
		return matchmaking.InvalidTicket("/teamSize", "%d teams of %d are more than %d players", teams, size,
			matchmaking.MaxMatchTickets)
	}
	if maxPlayers := largestParty(s, m); s.Players < 0 || s.Players > maxPlayers {
		return matchmaking.InvalidTicket("/players",
			"players must be 1 to %d in a team of this match, or 0 for one, not %d", maxPlayers, s.Players)
	}
	return nil
}

// largestParty returns the maximum number of players of a ticket: the team size. An operator's match functions form
// teams of any size, unless the ticket sets it.
func largestParty(s *matchmaking.Spec, m *matchmaking.Match) int {
	switch {
	case s.TeamSize > 0:
		return s.TeamSize
	case m.Function == matchmaking.MatchHTTP || m.Function == matchmaking.MatchGRPC || m.Function == "": // by the user
		return matchmaking.MaxParty
	}
	return m.TeamSize
}

func finite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }

// checkSize returns an error if the stored form of a ticket would exceed limit bytes.
func checkSize(size, limit int) error {
	if size <= limit {
		return nil
	}
	return &fault.Error{
		Kind: fault.TooLarge, Slug: fault.SlugTicketTooLarge,
		Detail: fmt.Sprintf("the ticket has %d bytes as protobuf, the limit of this queue is %d", size, limit),
	}
}
