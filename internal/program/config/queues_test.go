package config

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
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
  quiet: {ticketTTL: 1h, channel: false}
`, nil, nil)
	require.NoError(t, err)
	duel, plain, ranked := c.Matchmaking.Queues[0], c.Matchmaking.Queues[1], c.Matchmaking.Queues[3]
	require.Equal(t, []string{"duel", "plain", "ranked"}, []string{duel.Name, plain.Name, ranked.Name})
	require.Equal(t, "127.0.0.1:7777", duel.Assigner.Connection)
	require.Equal(t, matchmaking.MatchFirstCome, plain.Match.Function)
	require.Equal(t, map[string]float64{"skill": .75, "ping": .25}, ranked.Match.Weights)
	require.Equal(t,
		[]matchmaking.Widening{{After: matchmaking.Duration(5 * time.Second), By: map[string]float64{"skill": 100}}},
		ranked.Match.Widen)
	require.Equal(t, float64(5), ranked.Profile.Pools[0].DoubleRanges[0].Max)

	require.Equal(t, 22*time.Minute, c.TicketLife(), "tickets without channels need none")
}

func TestChannelsOfTickets(t *testing.T) {
	t.Parallel()
	c, err := load(t, "channels: [{pattern: '.*', ttl: 2s, maxMessageBytes: 1}]", nil, nil)
	require.NoError(t, err)
	policies, err := channel.NewPolicies(c.Channel, c.ChannelRules())
	require.NoError(t, err)
	for name, want := range map[string]channel.Policy{
		"ticket.a":  {TTL: 11 * time.Minute, MaxMessageBytes: 256 << 10},
		"ticket":    {TTL: 2 * time.Second, MaxMessageBytes: 1},
		"tickets.a": {TTL: 2 * time.Second, MaxMessageBytes: 1},
	} {
		got, err := policies.For(name)
		require.NoError(t, err)
		require.Equal(t, want, got, name)
	}
	c.Matchmaking.On = false
	require.Equal(t, c.Rules, c.ChannelRules()[:1])
}

// TestChannelsOfCaches: an operator's rules don't shorten or limit the channels of changes.
func TestChannelsOfCaches(t *testing.T) {
	t.Parallel()
	for yaml, want := range map[string]time.Duration{"": 2 * time.Second, "cacheShards: author\n": 2 * time.Minute} {
		c, err := load(t, yaml+"channels: [{pattern: '.*', ttl: 2s, maxMessageBytes: 1}]", nil, nil)
		require.NoError(t, err)
		policies, err := channel.NewPolicies(c.Channel, c.ChannelRules())
		require.NoError(t, err)
		got, err := policies.For("cache:author")
		require.NoError(t, err)
		require.Equal(t, want, got.TTL)
	}
}

// TestChannelsOfNotifications: the rule that is built in holds for them unless one of the configuration matches.
func TestChannelsOfNotifications(t *testing.T) {
	t.Parallel()
	c, err := load(t, "channels: [{pattern: 'notifications:b', publish: plain, lagMetrics: true}]", nil, nil)
	require.NoError(t, err)
	policies, err := channel.NewPolicies(c.Channel, c.ChannelRules())
	require.NoError(t, err)
	for name, want := range map[string][2]bool{ // with a schema, and published plainly
		"notifications:a": {true, false}, "notifications:topic:7": {true, false}, "notifications:b": {false, true},
		"notifications": {false, false}, "a.notifications:a": {false, false},
	} {
		got, err := policies.For(name)
		require.NoError(t, err)
		require.Equal(t, want, [2]bool{got.Schema != nil, got.Plain}, name)
		require.Equal(t, got.Plain, got.LagMetrics, name)
	}
}

func TestBadQueues(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "missing")
	tests := []struct{ name, yaml, want string }{
		{"not a mapping", "queues: [duel]", `tidemark.yaml:1: queues: must be a mapping of queues by name, such as {"duel": {}}, not a list`},
		{"text", "queues: duel", `tidemark.yaml:1: queues: must be a mapping of queues by name, such as {"duel": {}}, not "duel"`},
		{"queue that is text", "queues: {duel: fast}",
			"tidemark.yaml:1: queues.duel: the definition is malformed: must be an object, not a string"},
		{"name", "queues: {'a b': {}}", `tidemark.yaml:1: queues.a b: the queue's name "a b" must match`},
		{"unknown key", "queues: {duel: {match: {team: 1}}}", "tidemark.yaml:1: queues.duel.match.team: unknown member"},
		{"widening", "queues: {ranked: {match: {widen: [{after: 5, by: {skill: 1}}]}}}",
			`tidemark.yaml:1: queues.ranked.match.widen[0].after: must be a duration, such as "500ms" or "10m", not "5"`},
		{"number", "queues: {duel: {match: {teams: two}}}",
			`tidemark.yaml:1: queues.duel.match.teams: must be an integer, not "two"`},
		{"there twice", "queues: {duel: {}, duel: {}}", "tidemark.yaml:1: queues.duel: duplicate key, first in line 1"},
		{"url", "queues: {duel: {assigner: {kind: webhook}}}",
			"tidemark.yaml:1: queues.duel.assigner.url: must not be empty"},
		{"file", "queues: {duel: {assigner: {kind: webhook, url: 'http://a', secretFile: " + missing + "}}}",
			"queues.duel.assigner.secretFile: open " + missing},
		{"matchmaking", "matchmaking: maybe", `tidemark.yaml:1: matchmaking: "maybe" isn't on or off`},
		{"replicas", "ticketsReadReplicas: yes", `tidemark.yaml:1: ticketsReadReplicas: "yes" isn't on, off or a URL`},
		{"lease", "leaseTtl: 1ms", "tidemark.yaml:1: leaseTtl: 1ms is too short, at least 200ms is needed"},
		{"deep", "queues: {a: {b: {c: {d: {e: {f: {g: {h: {i: {j: {k: {l: {}}}}}}}}}}}}}", "tidemark.yaml:1: nested too deeply"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := load(t, tt.yaml, nil, nil)
			require.ErrorContains(t, err, tt.want)
		})
	}
	_, err := load(t, "", []string{`TIDEMARK_QUEUES={"duel":{"match":{"teams":"2"}}}`}, nil)
	require.ErrorContains(t, err, `TIDEMARK_QUEUES: queues.duel.match.teams: must be an integer, not a string`)
	_, err = load(t, "", nil, []string{"--queues", `{"duel":{},"duel":{}}`})
	require.ErrorContains(t, err, "--queues: queues.duel: duplicate member")
}
