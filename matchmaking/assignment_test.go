package matchmaking_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/matchmaking"
)

func TestAssignments(t *testing.T) {
	t.Parallel()
	created := time.Unix(7, 0)
	ann, ben, cid := &matchmaking.Ticket{ID: "ann", CreateTime: created}, &matchmaking.Ticket{ID: "ben"}, &matchmaking.Ticket{ID: "cid"}
	p := &matchmaking.Proposal{ID: "m", Teams: [][]*matchmaking.Ticket{{ann, ben}, {cid}}}
	values := func(list ...string) map[string]json.RawMessage {
		m := map[string]json.RawMessage{}
		for i := 0; i < len(list); i += 2 {
			m[list[i]] = json.RawMessage(list[i+1])
		}
		return m
	}
	for name, c := range map[string]struct {
		teammates     bool
		function, own map[string]json.RawMessage // extensions
		want          []string
	}{
		"plain": {want: []string{
			`{"ticketId":"ann","matchId":"m","queue":"duel","connection":"10.0.0.1:7777?a=1\u0026b=2","team":0}`,
			`{"ticketId":"ben","matchId":"m","queue":"duel","connection":"10.0.0.1:7777?a=1\u0026b=2","team":0}`,
			`{"ticketId":"cid","matchId":"m","queue":"duel","connection":"10.0.0.1:7777?a=1\u0026b=2","team":1}`,
		}},
		"teammates, and extensions of both": {
			teammates: true, function: values("mode", `"ctf"`, "map", `"dust"`), own: values("map", `{"name": "rust"}`), want: []string{
				`{"ticketId":"ann","matchId":"m","queue":"duel","connection":"10.0.0.1:7777?a=1\u0026b=2","team":0,"teammates":["ben"],"extensions":{"map":{"name":"rust"},"mode":"ctf"}}`,
				`{"ticketId":"ben","matchId":"m","queue":"duel","connection":"10.0.0.1:7777?a=1\u0026b=2","team":0,"teammates":["ann"],"extensions":{"map":{"name":"rust"},"mode":"ctf"}}`,
				`{"ticketId":"cid","matchId":"m","queue":"duel","connection":"10.0.0.1:7777?a=1\u0026b=2","team":1,"extensions":{"map":{"name":"rust"},"mode":"ctf"}}`,
			},
		},
	} {
		d := matchmaking.Definition{Name: "duel", Teammates: c.teammates}
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
