package matchmaking_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

func TestAssignments(t *testing.T) {
	t.Parallel()
	created := time.Unix(7, 0)
	ann, ben, cid := &matchmaking.Ticket{ID: "ann", CreateTime: created}, &matchmaking.Ticket{ID: "ben"},
		&matchmaking.Ticket{ID: "cid"}
	p := &matchmaking.Proposal{ID: "m", Teams: [][]*matchmaking.Ticket{{ann, ben}, {cid}}}
	values := func(list ...string) map[string]json.RawMessage {
		m := map[string]json.RawMessage{}
		for i := 0; i < len(list); i += 2 {
			m[list[i]] = json.RawMessage(list[i+1])
		}
		return m
	}
	for name, c := range map[string]struct {
		reveal        matchmaking.Reveal
		function, own map[string]json.RawMessage // extensions
		want          []string
	}{
		"plain": {want: []string{
			`{"ticketId":"ann","matchId":"m","queue":"duel","connection":"10.0.0.1:7777?a=1\u0026b=2","team":0}`,
			`{"ticketId":"ben","matchId":"m","queue":"duel","connection":"10.0.0.1:7777?a=1\u0026b=2","team":0}`,
			`{"ticketId":"cid","matchId":"m","queue":"duel","connection":"10.0.0.1:7777?a=1\u0026b=2","team":1}`,
		}},
		"teammates, and extensions of both": {
			reveal: matchmaking.RevealTeammates, function: values("mode", `"ctf"`, "map", `"dust"`),
			own: values("map", `{"name": "rust"}`), want: []string{
				`{"ticketId":"ann","matchId":"m","queue":"duel","connection":"10.0.0.1:7777?a=1\u0026b=2","team":0,"teammates":["ben"],"extensions":{"map":{"name":"rust"},"mode":"ctf"}}`,
				`{"ticketId":"ben","matchId":"m","queue":"duel","connection":"10.0.0.1:7777?a=1\u0026b=2","team":0,"teammates":["ann"],"extensions":{"map":{"name":"rust"},"mode":"ctf"}}`,
				`{"ticketId":"cid","matchId":"m","queue":"duel","connection":"10.0.0.1:7777?a=1\u0026b=2","team":1,"extensions":{"map":{"name":"rust"},"mode":"ctf"}}`,
			},
		},
		"opponents": {reveal: matchmaking.RevealOpponents, want: []string{
			`{"ticketId":"ann","matchId":"m","queue":"duel","connection":"10.0.0.1:7777?a=1\u0026b=2","team":0,"teammates":["ben"],"opponents":["cid"]}`,
			`{"ticketId":"ben","matchId":"m","queue":"duel","connection":"10.0.0.1:7777?a=1\u0026b=2","team":0,"teammates":["ann"],"opponents":["cid"]}`,
			`{"ticketId":"cid","matchId":"m","queue":"duel","connection":"10.0.0.1:7777?a=1\u0026b=2","team":1,"opponents":["ann","ben"]}`,
		}},
	} {
		d := matchmaking.Definition{Name: "duel", Reveal: c.reveal}
		p.Extensions = c.function
		match, err := d.Assignments(p, matchmaking.Allocation{Connection: "10.0.0.1:7777?a=1&b=2", Extensions: c.own})
		require.NoError(t, err)
		require.Equal(t, "m", match.ID)
		for i, a := range match.Assignments {
			require.Equal(t, c.want[i], string(a.Content), name)
		}
		require.Equal(t, created, match.Assignments[0].Created)
		if c.function != nil {
			require.Equal(t, `"dust"`, string(p.Extensions["map"]), "the proposal isn't changed")
		}
	}
	p.Extensions = values("broken", "{")
	_, err := new(matchmaking.Definition).Assignments(p, matchmaking.Allocation{})
	require.ErrorContains(t, err, "match m")
}

// A few large texts, or the IDs of many players that each of them gets, can't become gigabytes.
func TestAssignmentsThatAreTooLarge(t *testing.T) {
	t.Parallel()
	tickets := func(n int) (team []*matchmaking.Ticket) {
		for i := range n {
			team = append(team, &matchmaking.Ticket{ID: fmt.Sprintf("ticket-%020d", i)})
		}
		return team
	}
	for _, c := range []struct {
		reveal     matchmaking.Reveal
		teams      [][]*matchmaking.Ticket
		connection int
		fits       bool
	}{
		{matchmaking.RevealNone, [][]*matchmaking.Ticket{tickets(10_000)}, 100, true},
		{matchmaking.RevealNone, [][]*matchmaking.Ticket{tickets(100)}, 1 << 20, false},
		{matchmaking.RevealTeammates, [][]*matchmaking.Ticket{tickets(10_000)}, 100, false},
		{matchmaking.RevealTeammates, [][]*matchmaking.Ticket{tickets(500), tickets(500)}, 100, true},
		{matchmaking.RevealOpponents, [][]*matchmaking.Ticket{tickets(500), tickets(500)}, 100, false},
	} {
		d := matchmaking.Definition{Name: "duel", Reveal: c.reveal}
		_, err := d.Assignments(&matchmaking.Proposal{ID: "m", Teams: c.teams},
			matchmaking.Allocation{Connection: strings.Repeat("x", c.connection)})
		require.Equal(t, c.fits, err == nil, "%s, %d bytes: %v", c.reveal, c.connection, err)
		if err != nil {
			require.ErrorContains(t, err, "of at most 16777216")
		}
	}
}

// TestAssignmentsAreJSON checks that the output for teams of all sizes equals the JSON of Assignment.
func TestAssignmentsAreJSON(t *testing.T) {
	t.Parallel()
	d := matchmaking.Definition{Name: "duel", Reveal: matchmaking.RevealOpponents}
	for size := range 5 {
		p := &matchmaking.Proposal{ID: "m", Teams: [][]*matchmaking.Ticket{nil, nil}}
		for i := range size {
			p.Teams[i%2] = append(p.Teams[i%2], &matchmaking.Ticket{ID: "t" + strconv.Itoa(i)})
		}
		match, err := d.Assignments(p, matchmaking.Allocation{Connection: `a"é`})
		require.NoError(t, err)
		require.Len(t, match.Assignments, size)
		for _, written := range match.Assignments {
			var a matchmaking.Assignment
			require.NoError(t, json.Unmarshal(written.Content, &a))
			require.Equal(t, written.ID, a.TicketID)
			require.Len(t, a.Teammates, len(p.Teams[a.Team])-1)
			require.Len(t, a.Opponents, len(p.Teams[1-a.Team]))
			again, err := json.Marshal(a)
			require.NoError(t, err)
			require.Equal(t, string(again), string(written.Content))
		}
	}
}

// TestRecord checks the record of a match, and that its extensions are omitted if it would be too large.
func TestRecord(t *testing.T) {
	t.Parallel()
	pair := &matchmaking.Ticket{ID: "b", Spec: matchmaking.Spec{Players: 2}}
	p := &matchmaking.Proposal{ID: "m", Teams: [][]*matchmaking.Ticket{{{ID: "a"}, pair},
		{{ID: "c", Spec: matchmaking.Spec{Players: 1}}}, {}}}
	const record = `{"matchId":"m","queue":"duel","connection":"h:1\"","teams":[[{"id":"a"},{"id":"b","players":2}],[{"id":"c"}],[]]`
	want := matchmaking.AssignedMatch{
		ID: "m", Queue: "duel", Connection: `h:1"`, AssignTime: time.Unix(7, 0).UTC(),
		Teams: [][]matchmaking.MatchedTicket{{{ID: "a", Players: 1}, {ID: "b", Players: 2}}, {{ID: "c", Players: 1}}, {}},
	}
	for _, bytes := range []int{0, 100, 65 << 10} {
		want.Extensions = nil
		text := record + "}"
		if bytes > 0 {
			value := `"` + strings.Repeat("x", bytes) + `"`
			p.Extensions = map[string]json.RawMessage{"x": json.RawMessage(value)}
			if bytes == 100 {
				want.Extensions = p.Extensions
				text = record + `,"extensions":{"x":` + value + "}}"
			}
		}
		match, err := (&matchmaking.Definition{Name: "duel"}).Assignments(p, matchmaking.Allocation{Connection: `h:1"`})
		require.NoError(t, err)
		require.Equal(t, text, string(match.Record))
		got, err := matchmaking.ParseMatch(match.Record, time.Unix(7, 0))
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := matchmaking.ParseMatch([]byte("{"), time.Time{})
	require.Error(t, err)
}
