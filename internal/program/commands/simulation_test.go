package commands

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/matchmaking/simulation"
)

// four are created after 0, 5, 10 and 60 seconds. a and c accept each other. With 60 more, b accepts d; with 100 more,
// d accepts b.
const four = `
{"id":"d","createTime":"2026-11-21T12:01:00Z","ttl":"30s","criteria":[{"name":"skill","minValue":1690,"maxValue":1710}],"statistics":[{"name":"skill","value":1700}]}
{"id":"a","createTime":"2026-11-21T12:00:00Z","criteria":[{"name":"skill","minValue":1450,"maxValue":1550}],"statistics":[{"name":"skill","value":1500}]}
{"id":"b","createTime":"2026-11-21T12:00:05Z","criteria":[{"name":"skill","minValue":1550,"maxValue":1650}],"statistics":[{"name":"skill","value":1600}]}
{"id":"c","createTime":"2026-11-21T12:00:10Z","criteria":[{"name":"skill","minValue":1490,"maxValue":1590}],"statistics":[{"name":"skill","value":1540}]}
`

func TestRecordingWithAByteOrderMark(t *testing.T) {
	t.Parallel()
	lines := strings.TrimSpace(four)
	want, err := readTickets(strings.NewReader(lines))
	require.NoError(t, err)
	got, err := readTickets(strings.NewReader("\uFEFF" + lines))
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func TestRun(t *testing.T) {
	t.Parallel()
	const widen = `"weights":{"skill":1},"widen":[{"after":"8s","by":{"skill":60}},{"after":"20s","by":{"skill":40}}]`
	for name, test := range map[string]struct {
		definition string
		matches    int
		waits      []int // seconds: p50, p90, max
		fitness    []float64
	}{
		"narrow": {`{"match":{"function":"criteria","weights":{"skill":1}}}`, 1,
			[]int{0, 10, 10}, []float64{40, 40}},
		"wider": {`{"match":{"function":"criteria",` + widen + `}}`, 2, []int{10, 75, 75},
			[]float64{40, 100}},
		"as answered": {`{"queue":"q","definition":{"match":{"function":"criteria",` + widen +
			`},"assigner":{"kind":"webhook","url":"http://h","secret":"xxxxx"}}}`, 2, []int{10, 75, 75},
			[]float64{40, 100}},
		"the last widening is too late": {`{"match":{"function":"criteria",` + widen + `},"ticketTTL":"20s"}`, 1,
			[]int{0, 10, 10}, []float64{40, 40}},
		"expired before another came": {`{"ticketTTL":"4s"}`, 0, []int{0, 0, 0}, []float64{0, 0}},
		"first-come":                  {`{}`, 2, []int{0, 50, 50}, []float64{0, 0}},
		"three":                       {`{"match":{"teams":3}}`, 1, []int{5, 10, 10}, []float64{0, 0}},
	} {
		tickets, err := readTickets(strings.NewReader(four))
		require.NoError(t, err)
		q, err := simulation.Parse([]byte(test.definition))
		require.NoError(t, err)
		r, err := q.Run(t.Context(), tickets)
		require.NoError(t, err)
		require.Equal(t, 4, r.Tickets, name)
		require.Equal(t, test.matches, r.Matches, name)
		seconds := func(d time.Duration) int { return int(d / time.Second) }
		require.Equal(t, test.waits, []int{seconds(r.Waits.P50), seconds(r.Waits.P90), seconds(r.Waits.Max)}, name)
		require.Equal(t, test.fitness, []float64{r.Fitness.P50, r.Fitness.Max}, name)
	}
}

// TestRunIsRepeatable, whatever the order of the lines.
func TestRunIsRepeatable(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	start := time.Unix(0, 0)
	lines := make([]string, 3000)
	for i := range lines {
		skill := random.IntN(2000)
		lines[i] = fmt.Sprintf(
			`{"id":"%d","createTime":%q,"criteria":[{"name":"skill","minValue":%d,"maxValue":%d}],"statistics":[{"name":"skill","value":%d}],"players":%d}`,
			i, start.Add(time.Duration(random.IntN(600_000))*time.Millisecond).UTC().Format(time.RFC3339Nano), skill-20,
			skill+20, skill, 1+random.IntN(2))
	}
	q, err := simulation.Parse(
		[]byte(
			`{"match":{"function":"criteria","teamSize":3,"weights":{"skill":1},"widen":[{"after":"5s","by":{"skill":50}}]},"ticketTTL":"1m"}`))
	require.NoError(t, err)
	var results [2]simulation.Result
	for i := range results {
		tickets, err := readTickets(strings.NewReader(strings.Join(append(lines, lines...), "\n")))
		require.NoError(t, err)
		results[i], err = q.Run(t.Context(), tickets)
		require.NoError(t, err)
		random.Shuffle(len(lines), func(a, b int) { lines[a], lines[b] = lines[b], lines[a] })
	}
	require.Equal(t, results[0], results[1])
	require.Equal(t, len(lines), results[0].Tickets, "each line is there twice")
	require.Greater(t, results[0].Matched, len(lines)/2)
	require.LessOrEqual(t, results[0].Waits.Max, time.Minute)

	ended, end := context.WithCancel(t.Context())
	end()
	tickets, err := readTickets(strings.NewReader(four))
	require.NoError(t, err)
	_, err = q.Run(ended, tickets)
	require.ErrorIs(t, err, context.Canceled)
}

// TestReadTickets reads the formats of the service: a ticket, the body that creates one, and the answer of
// QueryService.
func TestReadTickets(t *testing.T) {
	t.Parallel()
	const same = `"searchFields":{"tags":["eu"],"doubleArgs":{"level":12}}`
	const read = `{"id":"ann","queue":"duel","status":"MATCH_FOUND","createTime":"2026-11-21T12:00:00Z","channel":"ticket.ann","ttlMs":5,"lifeMs":60000,` + same +
		`,"criteria":[{"name":"skill","minValue":1,"maxValue":2}],"statistics":[{"name":"skill","value":1.5}],"numTeams":3,"teamSize":2,"players":2}`
	const body = `{"queue":"duel","createTime":"2026-11-21T11:00:00Z","ttl":"1m30s",` + same + `}`
	const answer = `{"result":{"tickets":[{"id":"bob","assignment":null,` + same +
		`,"createTime":"2026-11-21T13:00:00.000001Z","extensions":` +
		`{"tidemark.criteria":{"@type":"type.googleapis.com/google.protobuf.ListValue","value":[{"name":"skill","minValue":1,"maxValue":2}]}},"persistentField":` +
		`{"ttl":{"@type":"type.googleapis.com/google.protobuf.Int64Value","value":"60000000000"}}},{"id":"ann","createTime":"2026-11-21T12:00:00Z"}]}}`
	tickets, err := readTickets(strings.NewReader(read + "\n\n" + body + "\n" + answer))
	require.NoError(t, err)
	var ids []string
	for _, ticket := range tickets {
		ids = append(ids, ticket.ID)
	}
	require.Equal(t, []string{"line-3", "ann", "bob"}, ids)
	ann, bob := tickets[1], tickets[2]
	require.Equal(t, []time.Duration{90 * time.Second, time.Minute, time.Minute},
		[]time.Duration{tickets[0].Life, ann.Life, bob.Life})
	require.Equal(t, []int{3, 2, 2}, []int{ann.NumTeams, ann.TeamSize, ann.Players})
	require.Equal(t, ann.Criteria, bob.Criteria)
	require.Len(t, ann.Statistics, 1)
	require.Equal(t, ann.SearchFields, bob.SearchFields)
	require.EqualValues(t, 12, tickets[0].SearchFields.DoubleArgs["level"])

	for text, want := range map[string]string{
		"{}":                                  "line 1: the ticket has no createTime",
		read + "\n{":                          "line 2: unexpected end of JSON input",
		`{"error":{"code":8}}`:                `line 1: the recording failed: {"code":8}`,
		`{"result":{"tickets":[{"id":1}]}`:    "line 1: ",
		`{"result":{"tickets":[{"id":"a"}]}}`: "line 1: ticket a has no create_time",
		`{"createTime":"2026-11-21T12:00:00Z","ttl":"now"}`: "line 1: ttl: ",
		strings.Repeat(" ", 33<<20):                         "line 1: bufio.Scanner: token too long",
	} {
		_, err := readTickets(strings.NewReader(text))
		require.ErrorContains(t, err, want)
	}
}

func TestQueuesThatCannotBeSimulated(t *testing.T) {
	t.Parallel()
	for definition, want := range map[string]string{
		`{"match":{"function":"http","url":"http://h"}}`:                "the match function http can't be simulated, only first-come and criteria can",
		`{"evaluator":{"kind":"grpc","url":"http://h"}}`:                "the evaluator grpc can't be simulated, only decollide can",
		`{"definition":{"match":{"teams":0}}}`:                          "match.teams: must be positive",
		`{"match":{"widen":[{"after":"1s","by":{"a":1}}],"wide":true}}`: "wide",
	} {
		_, err := simulation.Parse([]byte(definition))
		require.ErrorContains(t, err, want)
	}
}
