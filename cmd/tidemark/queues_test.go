package main

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/matchmaking/callout"
	"github.com/tidemark-dev/tidemark/matchmaking/callout/jsonhttp"
)

// TestQueuesOfTheFile reads queues as an operator writes them.
func TestQueuesOfTheFile(t *testing.T) {
	t.Parallel()
	c, err := load(t, `
queues:
  duel:
    match: {function: first-come, teams: 2, teamSize: 1}
    assigner: {kind: static, connection: "127.0.0.1:7777"}
  ranked:
    match:
      function: criteria
      acceptance: mutual            # or one-sided
      weights: {skill: 0.75, ping: 0.25}
      widen: [{after: 5s, by: {skill: 100}}]
    assigner: {kind: webhook, url: "http://127.0.0.1:9000/allocate"}
    ticketTTL: 20m
    pendingTimeout: 1m
    assignmentTTL: 2m
    profile:
      pools: [{name: all, doubleRangeFilters: [{doubleArg: level, min: 1, max: 5}], tagPresentFilters: [{tag: eu}]}]
  plain:
`, nil, nil)
	require.NoError(t, err)
	duel, plain, ranked := c.Matchmaking.Queues[0], c.Matchmaking.Queues[1], c.Matchmaking.Queues[2]
	require.Equal(t, []string{"duel", "plain", "ranked"}, []string{duel.Name, plain.Name, ranked.Name})
	require.Equal(t, "127.0.0.1:7777", duel.Assigner.Connection)
	require.Equal(t, matchmaking.MatchFirstCome, plain.Match.Function)
	require.Equal(t, map[string]float64{"skill": .75, "ping": .25}, ranked.Match.Weights)
	require.Equal(t, []matchmaking.Widening{{After: matchmaking.Duration(5 * time.Second), By: map[string]float64{"skill": 100}}}, ranked.Match.Widen)
	require.Equal(t, float64(5), ranked.Profile.Pools[0].DoubleRanges[0].Max)

	require.Equal(t, 22*time.Minute, c.ticketLife())
}

func TestChannelsOfTickets(t *testing.T) {
	t.Parallel()
	c, err := load(t, "channels: [{pattern: '.*', ttl: 2s, maxMessageBytes: 1}]", nil, nil)
	require.NoError(t, err)
	policies, err := channel.NewPolicies(c.Channel, c.channelRules())
	require.NoError(t, err)
	for name, want := range map[string]channel.Policy{
		"ticket.a": {TTL: 11 * time.Minute, MaxMessageBytes: 256 << 10}, "ticket": {TTL: 2 * time.Second, MaxMessageBytes: 1},
		"tickets.a": {TTL: 2 * time.Second, MaxMessageBytes: 1},
	} {
		got, err := policies.For(name)
		require.NoError(t, err)
		require.Equal(t, want, got, name)
	}
	c.Matchmaking.On = false
	require.Equal(t, c.Rules, c.channelRules())
}

func TestBadQueues(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "missing")
	tests := []struct{ name, yaml, want string }{
		{"not a mapping", "queues: [duel]", `tidemark.yaml: isn't a value of the kind "queues"`},
		{"text", "queues: duel", "tidemark.yaml: queues: the body is not valid JSON"},
		{"queue that is text", "queues: {duel: fast}", "tidemark.yaml: queues.duel: the definition isn't an object"},
		{"name", "queues: {'a b': {}}", `tidemark.yaml: queues.a b: the queue's name "a b" must match`},
		{"unknown key", "queues: {duel: {match: {team: 1}}}", "tidemark.yaml: queues.duel.match.team: there is no such key"},
		{"widening", "queues: {ranked: {match: {widen: [{after: 5, by: {skill: 1}}]}}}", `tidemark.yaml: queues.ranked.match.widen[0].after: "5" isn't a duration`},
		{"number", "queues: {duel: {match: {teams: two}}}", `tidemark.yaml: queues.duel.match.teams: "two" isn't an integer`},
		{"truth", "queues: {duel: {teammates: yes}}", `tidemark.yaml: queues.duel.teammates: "yes" isn't true or false`},
		{"there twice", "queues: {duel: {}, duel: {}}", "line 1: duel is there twice"},
		{"url", "queues: {duel: {assigner: {kind: webhook}}}", "tidemark.yaml: queues.duel.assigner.url: is empty"},
		{"file", "queues: {duel: {assigner: {kind: webhook, url: 'http://a', secretFile: " + missing + "}}}", "queues.duel.assigner.secretFile: open " + missing},
		{"matchmaking", "matchmaking: maybe", `tidemark.yaml: matchmaking: "maybe" isn't on or off`},
		{"replicas", "ticketsReadReplicas: yes", `tidemark.yaml: ticketsReadReplicas: "yes" isn't on, off or a URL`},
		{"lease", "leaseTtl: 1ms", "tidemark.yaml: leaseTtl: 1ms is too short, at least 200ms is needed"},
		{"deep", "queues: {a: {b: {c: {d: {e: {f: {g: {h: {i: {j: {k: {l: {}}}}}}}}}}}}}", "nested too deeply"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := load(t, tt.yaml, nil, nil)
			require.ErrorContains(t, err, tt.want)
		})
	}
	_, err := load(t, "", []string{`TIDEMARK_QUEUES={"duel":{"match":{"teams":"2"}}}`}, nil)
	require.ErrorContains(t, err, `TIDEMARK_QUEUES: queues.duel.match.teams: "2" isn't an integer`)
	_, err = load(t, "", nil, []string{"--queues", `{"duel":{},"duel":{}}`})
	require.ErrorContains(t, err, `--queues: queues: the member "duel" is there twice`)
}

// TestEveryPartIsBuilt builds queues of every kind there is.
func TestEveryPartIsBuilt(t *testing.T) {
	t.Parallel()
	build := buildQueues(slog.New(slog.DiscardHandler), nil)
	for name, definition := range map[string]string{
		"least":     `{}`,
		"criteria":  `{"match":{"function":"criteria"},"profile":{"pools":[{"name":"a"}]}}`,
		"http":      `{"match":{"function":"http","url":"http://127.0.0.1:1"},"evaluator":{"kind":"http","url":"http://127.0.0.1:1"}}`,
		"grpc":      `{"match":{"function":"grpc","url":"http://127.0.0.1:1"},"evaluator":{"kind":"grpc","url":"http://127.0.0.1:1"}}`,
		"webhook":   `{"assigner":{"kind":"webhook","url":"http://127.0.0.1:1","secret":"s"}}`,
		"evaluator": `{"evaluator":{"kind":"` + callout.EvaluatorHTTP + `","url":"http://127.0.0.1:1"}}`,
	} {
		d, err := matchmaking.ParseDefinition("q", []byte(definition))
		require.NoError(t, err, name)
		parts, err := build(d)
		require.NoError(t, err, name)
		require.NotNil(t, parts.Matcher, name)
		require.NotNil(t, parts.Evaluator, name)
		require.NotNil(t, parts.Assigner, name)
	}
	d, err := matchmaking.ParseDefinition("q", []byte(`{"assigner":{"kind":"webhook","url":"http://127.0.0.1:1","secretFile":"missing"}}`))
	require.NoError(t, err)
	_, err = build(d)
	var told *fault.Error
	require.ErrorAs(t, err, &told)
	require.Equal(t, "assigner.secretFile", told.Field)
	require.Equal(t, fault.SlugInvalidQueue, told.Slug)
}

// TestTargetsOfQueuesAtRunTime are bounded in every part that calls, those of the configuration in none.
func TestTargetsOfQueuesAtRunTime(t *testing.T) {
	t.Parallel()
	targets, err := jsonhttp.ParseTargets([]string{"fn.example:9000"})
	require.NoError(t, err)
	build := buildQueues(slog.New(slog.DiscardHandler), targets)
	for field, definition := range map[string]string{
		"match.url":     `{"match":{"function":"http","url":"URL"}}`,
		"evaluator.url": `{"evaluator":{"kind":"grpc","url":"URL"}}`,
		"assigner.url":  `{"assigner":{"kind":"webhook","url":"URL","secret":"s"}}`,
	} {
		for _, kinds := range [][2]string{{"http", "grpc"}, {"grpc", "http"}, {"webhook", "agones"}} {
			text := strings.Replace(definition, `"`+kinds[0]+`"`, `"`+kinds[1]+`"`, 1)
			for url, allowed := range map[string]bool{"http://fn.example:9000/f": true, "http://127.0.0.1:1": false, "http://u:p@fn.example:9000": false} {
				d, err := matchmaking.ParseDefinition("q", []byte(strings.Replace(text, "URL", url, 1)))
				require.NoError(t, err)
				_, err = build(d)
				require.NoError(t, err, "%s of the configuration", url)
				d.RunTime = true
				_, err = build(d)
				require.Equal(t, allowed, err == nil, "%s: %v", text, err)
				var told *fault.Error
				if err != nil {
					require.ErrorAs(t, err, &told)
					require.Equal(t, field, told.Field)
					require.Equal(t, fault.SlugInvalidQueue, told.Slug)
				}
			}
		}
	}
}

func TestPairs(t *testing.T) {
	t.Parallel()
	f := ticketFlags{
		doubles: []string{"level=12", "far=+Inf"}, texts: []string{"map=a=b", "empty="},
		criteria: []string{"skill=1000..1500.5", "ping=-1..1"}, statistics: []string{"skill=1200"}, extensions: `{"a":{"b":1}}`,
	}
	require.NoError(t, f.complete())
	require.Equal(t, float64(12), f.ticket.SearchFields.DoubleArgs["level"])
	require.Equal(t, map[string]string{"map": "a=b", "empty": ""}, f.ticket.SearchFields.StringArgs)
	require.Equal(t, 1500.5, f.ticket.Criteria[0].MaxValue)
	require.Equal(t, float64(-1), f.ticket.Criteria[1].MinValue)
	require.Equal(t, float64(1200), f.ticket.Statistics[0].Value)
	require.JSONEq(t, `{"b":1}`, string(f.ticket.Extensions["a"]))
	for want, bad := range map[string]ticketFlags{
		`--double: "level" isn't like NAME=VALUE`:             {doubles: []string{"level"}},
		`--double: level: "high" isn't a number`:              {doubles: []string{"level=high"}},
		`--double: "a" is there twice`:                        {doubles: []string{"a=1", "a=2"}},
		`--string: "=x" isn't like NAME=VALUE`:                {texts: []string{"=x"}},
		`--criterion: skill: "1000" isn't like MIN..MAX`:      {criteria: []string{"skill=1000"}},
		`--criterion: skill: "" isn't a number`:               {criteria: []string{"skill=1.."}},
		`--statistic: skill: NaN isn't finite`:                {statistics: []string{"skill=NaN"}},
		`--extensions: "[]" isn't a JSON object`:              {extensions: "[]"},
		`--wait: -1s is negative`:                             {wait: -time.Second},
		`--keep is for --wait: nothing else cancels a ticket`: {keep: true},
	} {
		require.EqualError(t, bad.complete(), want)
	}
}
