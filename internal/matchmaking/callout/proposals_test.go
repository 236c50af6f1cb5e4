package callout

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProposalsAreValidated(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		matches []found
		want    string
	}{
		"unknown ticket": {[]found{{ID: "m1", Teams: [][]string{{"a"}, {"x"}}}},
			`match "m1" has the ticket "x", which is in no pool`},
		"ticket twice": {[]found{{ID: "m1", Teams: [][]string{{"a"}, {"a"}}}},
			`match "m1" has a duplicate ticket "a"`},
		"no teams":   {[]found{{ID: "m1"}}, `match "m1" has no teams`},
		"empty team": {[]found{{Teams: [][]string{{"a"}, {}}}}, `match "" has no tickets in team 1`},
		"ID twice": {[]found{{ID: "m", Teams: [][]string{{"a"}}}, {ID: "m", Teams: [][]string{{"b"}}}},
			`two matches have the ID "m"`},
		"invalid ID": {[]found{{ID: "m}", Teams: [][]string{{"a"}}}}, `"m}" must match`},
		"NaN": {[]found{{ID: "m1", Teams: [][]string{{"a"}}, Score: math.NaN()}},
			`match "m1" has the score NaN`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := newProposals(pools())
			last := len(c.matches) - 1
			for _, m := range c.matches[:last] {
				require.NoError(t, all.add(m))
			}
			require.ErrorContains(t, all.add(c.matches[last]), c.want)
			require.Len(t, all.valid, last)
		})
	}
}

func TestAcceptedMatchesAreValidated(t *testing.T) {
	t.Parallel()
	for want, ids := range map[string][]string{
		`match "m9" was not proposed`:                {"m9"},
		`matches "m1" and "m2" share the ticket "b"`: {"m1", "m2"},
		`duplicate match "m1"`:                       {"m1", "m1"},
	} {
		_, err := choose(proposed3(), ids)
		require.EqualError(t, err, want)
	}
}
