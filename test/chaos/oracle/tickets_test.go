package oracle_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/test/chaos/oracle"
)

// duels returns an oracle of tickets a to d in a queue of matches of two.
func duels() *oracle.Tickets {
	t := oracle.NewTickets(oracle.Rules{}, map[string]int{"duel": 2})
	for _, id := range []string{"a", "b", "c", "d"} {
		t.Attempted(id, "duel")
		t.Created(id)
	}
	return t
}

func in(match string) oracle.Assignment { return oracle.Assignment{Match: match, Connection: "host"} }

// TestPartial: in a queue whose director assigns in part, a match may lack a ticket, but have no further one.
func TestPartial(t *testing.T) {
	t.Parallel()
	o := oracle.NewTickets(oracle.Rules{Partial: "duel"}, map[string]int{"duel": 2})
	for id, match := range map[string]string{"a": "1", "b": "2", "c": "2", "d": "2"} {
		o.Attempted(id, "duel")
		o.Created(id)
		o.Assigned(id, in(match))
	}
	v := o.Verdict()
	require.Equal(t, 1, v.Crowded)
	require.Equal(t, 1, v.Faults())
}

func TestTickets(t *testing.T) {
	t.Parallel()
	type counts struct{ two, stuck, ended, crowded, split, forgotten int }
	all := func(o *oracle.Tickets) {
		for id, match := range map[string]string{"a": "1", "b": "1", "c": "2", "d": "2"} {
			o.Assigned(id, in(match))
		}
	}
	for name, c := range map[string]struct {
		saw  func(o *oracle.Tickets)
		want counts
	}{
		"two matches of two": {saw: all},
		"notified twice": {saw: func(o *oracle.Tickets) {
			all(o)
			all(o)
		}},
		"a ticket in two matches": {
			saw: func(o *oracle.Tickets) {
				all(o)
				o.Assigned("a", in("3"))
			},
			want: counts{two: 1, split: 1},
		},
		"a ticket in a match of others": {
			saw: func(o *oracle.Tickets) {
				all(o)
				o.Assigned("a", in("2"))
			},
			want: counts{two: 1, crowded: 1},
		},
		"another place in the same match": {
			saw: func(o *oracle.Tickets) {
				all(o)
				o.Assigned("a", oracle.Assignment{Match: "1", Connection: "elsewhere"})
			},
			want: counts{two: 1, split: 1},
		},
		"a player was not notified": {
			saw: func(o *oracle.Tickets) {
				o.Assigned("a", in("1"))
				o.Assigned("b", in("1"))
				o.Assigned("c", in("2"))
			},
			want: counts{stuck: 1, split: 1},
		},
		"two wait": {
			saw: func(o *oracle.Tickets) {
				o.Assigned("a", in("1"))
				o.Assigned("b", in("1"))
			},
			want: counts{stuck: 2},
		},
		"a match is forgotten": {
			saw: func(o *oracle.Tickets) {
				all(o)
				o.Forgotten("a", "SEARCHING")
			},
			want: counts{forgotten: 1},
		},
		"two have expired": {
			saw: func(o *oracle.Tickets) {
				o.Assigned("a", in("1"))
				o.Assigned("b", in("1"))
				o.Ended("c", "EXPIRED")
				o.Ended("d", "EXPIRED")
			},
			want: counts{ended: 2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := duels()
			c.saw(o)
			v := o.Verdict()
			require.Equal(t, c.want, counts{v.TwoMatches, v.Stuck, v.Ended, v.Crowded, v.Split, v.Forgotten})
			require.Equal(t, c.want.two+c.want.stuck+c.want.ended+c.want.crowded+c.want.split+c.want.forgotten, v.Faults())
			require.Equal(t, v.Stuck, o.Waiting("duel"))
		})
	}
}

// A ticket whose creation failed may exist, so that it takes a seat.
func TestTicketsThatMayExist(t *testing.T) {
	t.Parallel()
	o := oracle.NewTickets(oracle.Rules{}, map[string]int{"duel": 2})
	o.Attempted("a", "duel")
	o.Created("a")
	o.Attempted("ghost", "duel")
	o.Assigned("a", in("1"))
	v := o.Verdict()
	require.Zero(t, v.Faults())
	require.Equal(t, 1, v.Created)
	require.Equal(t, 1, v.Matched)
}

func TestFillersAreNotStuck(t *testing.T) {
	t.Parallel()
	o := duels()
	o.Filler("d")
	require.Equal(t, 3, o.Verdict().Stuck)
}

// A fail-over may lose a ticket. Its player must be notified.
func TestTicketsThatAFailOverLost(t *testing.T) {
	t.Parallel()
	o := oracle.NewTickets(oracle.Rules{Failover: true}, map[string]int{"duel": 2})
	for _, id := range []string{"notified", "stuck"} {
		o.Attempted(id, "duel")
		o.Created(id)
	}
	o.Ended("notified", "not found")
	require.Equal(t, 1, o.Verdict().Stuck)
	require.Equal(t, 1, o.Verdict().Gone)
	require.Equal(t, 1, o.Verdict().Faults())
}

// After a fail-over, a ticket that exists without the match that its player knows may get another one. One that does
// not exist cannot.
func TestTicketsThatVanished(t *testing.T) {
	t.Parallel()
	for rules, faults := range map[oracle.Rules]int{{}: 2, {Failover: true}: 1} {
		o := oracle.NewTickets(rules, map[string]int{"duel": 2})
		for _, id := range []string{"a", "b"} {
			o.Attempted(id, "duel")
			o.Created(id)
			o.Assigned(id, in("1"))
		}
		o.Vanished("a")
		o.Forgotten("b", "SEARCHING")
		require.Equal(t, faults, o.Verdict().Faults())
		require.Equal(t, faults, o.Verdict().Forgotten)
	}
}

func TestRefusedTicketsAreFaults(t *testing.T) {
	t.Parallel()
	o := oracle.NewTickets(oracle.Rules{}, nil)
	o.Refused("500")
	require.Equal(t, 1, o.Verdict().Faults())
}
