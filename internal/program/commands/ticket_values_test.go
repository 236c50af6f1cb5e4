package commands

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPairs(t *testing.T) {
	t.Parallel()
	f := ticketFlags{
		doubles: []string{"level=12", "far=+Inf"}, texts: []string{"map=a=b", "empty="},
		criteria: []string{"skill=1000..1500.5", "ping=-1..1"}, statistics: []string{"skill=1200"},
		extensions: `{"a":{"b":1}}`,
	}
	require.NoError(t, f.complete())
	require.Equal(t, float64(12), f.ticket.SearchFields.DoubleArgs["level"])
	require.Equal(t, map[string]string{"map": "a=b", "empty": ""}, f.ticket.SearchFields.StringArgs)
	require.Equal(t, 1500.5, f.ticket.Criteria[0].MaxValue)
	require.Equal(t, float64(-1), f.ticket.Criteria[1].MinValue)
	require.Equal(t, float64(1200), f.ticket.Statistics[0].Value)
	require.JSONEq(t, `{"b":1}`, string(f.ticket.Extensions["a"]))
	for want, bad := range map[string]ticketFlags{
		`--double: "level" isn't like NAME=VALUE`:            {doubles: []string{"level"}},
		`--double: level: "high" isn't a number`:             {doubles: []string{"level=high"}},
		`--double: duplicate name "a"`:                       {doubles: []string{"a=1", "a=2"}},
		`--string: "=x" isn't like NAME=VALUE`:               {texts: []string{"=x"}},
		`--criterion: skill: "1000" isn't like MIN..MAX`:     {criteria: []string{"skill=1000"}},
		`--criterion: skill: "" isn't a number`:              {criteria: []string{"skill=1.."}},
		`--statistic: skill: NaN isn't finite`:               {statistics: []string{"skill=NaN"}},
		`--extensions: "[]" isn't a JSON object`:             {extensions: "[]"},
		`--wait: -1s is negative`:                            {wait: -time.Second},
		`--keep needs --wait: nothing else cancels a ticket`: {keep: true},
	} {
		require.EqualError(t, bad.complete(), want)
	}
}
