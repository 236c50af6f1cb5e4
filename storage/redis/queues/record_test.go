package queues

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

func FuzzParse(f *testing.F) {
	f.Add([]byte("S1704067200000000 600000 60000 600000 01M7XSP26QJ3QEVHWDRP2PHXG6 01M7XSP26QJ3QEVHWDRP2PHXG7 \x1a\x02\x18\x02"))
	f.Add([]byte("C1 2 3 4 a  "))
	f.Add([]byte("S1 2 3 4 a b"))
	f.Add([]byte("S1 2 3 "))
	f.Fuzz(func(t *testing.T, value []byte) {
		r, err := parseRecord("", "", value)
		if err != nil {
			require.ErrorIs(t, err, errMalformed)
			return
		}
		require.Equal(t, value[0] == 'C', r.Status == matchmaking.Cancelled)
	})
}

func TestEnds(t *testing.T) { //nolint:paralleltest // it counts allocations
	at := func(us int64) time.Time { return time.UnixMicro(us) }
	for text, want := range map[string][]matchmaking.TicketEnd{
		"a 5 2 {}": {{ID: "a", Created: at(5), Content: "{}"}},
		"a 5 2 {}b 6 0 c 7 -1 ": {{ID: "a", Created: at(5), Content: "{}"}, {ID: "b", Created: at(6)},
			{ID: "c", Created: at(7), Removed: true}},
		"a 5 3 1 2b 6 0 ":           {{ID: "a", Created: at(5), Content: "1 2"}, {ID: "b", Created: at(6)}},
		"":                          nil,
		"a":                         nil,
		"a 5 2":                     nil,
		"a 5 2 x":                   nil,
		" 5 0 ":                     nil,
		"a x 0 ":                    nil,
		"a 5 x ":                    nil,
		"a 5 -2 ":                   nil,
		"a 5 99999999999999999999 ": nil,
	} {
		var ends []matchmaking.TicketEnd
		err := parseEnds(text, func(e matchmaking.TicketEnd) { ends = append(ends, e) })
		require.Equal(t, want, ends, text)
		if want == nil {
			require.ErrorIs(t, err, errNotification, text)
		} else {
			require.NoError(t, err, text)
		}
	}
	long := strings.Repeat("01M8F2V4PCQ2Z6C7XQ8S5T1N3A.duel 1704067200000000 2 {}", 1000)
	require.Zero(t, testing.AllocsPerRun(10, func() {
		if parseEnds(long, func(matchmaking.TicketEnd) {}) != nil {
			panic("malformed")
		}
	}))
}

func FuzzEnds(f *testing.F) {
	f.Add("a 5 2 {}b 6 0 c 7 -1 ")
	f.Fuzz(func(t *testing.T, text string) {
		read := 0
		err := parseEnds(text, func(e matchmaking.TicketEnd) { read += len(e.ID) + len(e.Content) + 5 })
		require.LessOrEqual(t, read, len(text))
		if err != nil {
			require.ErrorIs(t, err, errNotification)
		}
	})
}

func FuzzParseChanges(f *testing.F) {
	f.Add("7-5 7-7/c a 0 -1 b 0 -2 c 9000 12 S1 2 3 4 a  ")
	f.Fuzz(func(t *testing.T, text string) {
		n, changes, err := parseChanges(matchmaking.ChangesRequest{}, text)
		if err != nil {
			require.Empty(t, changes)
			return
		}
		require.NotEmpty(t, changes)
		require.True(t, strings.HasPrefix(text, n.First+" "+n.After+" "))
	})
}

func TestChangesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for _, fields := range []map[string]string{
		{}, {"ticket": "S1 2 3 4 a  ", "expires": "1"}, {"id": "a", "ticket": "S1 2 3 4 a  "},
		{"id": "a", "ticket": "S1 2 3 4 a  ", "expires": "x"}, {"id": "a", "ticket": "what?", "expires": "1"},
	} {
		_, err := parseChange(matchmaking.ChangesRequest{}, fields)
		require.ErrorIs(t, err, errMalformed, "%v", fields)
	}
}
