package queues

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/lease"
	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/rig"
	"github.com/tidemark-dev/tidemark/storage/storagetest/queuetest"
)

// scenarioStep is a step of the page's scenario, with the value and TTL of each key.
type scenarioStep struct {
	title string
	keys  map[string]scenarioKey
}

type scenarioKey struct {
	value string
	ttl   time.Duration
}

// scenarioSteps reads the page's scenario of two players.
func scenarioSteps(t testing.TB) []scenarioStep {
	t.Helper()
	var steps []scenarioStep
	headings := regexp.MustCompile(`(?m)^### Step (\d+): (.+)$`)
	for _, m := range headings.FindAllStringSubmatch(rig.Section(t, "## Two players are matched"), -1) {
		header, rows := rig.Table(t, rig.Section(t, m[0]))
		require.Equal(t, []string{"Key", "Value", "TTL", "In the source"}, header)
		step := scenarioStep{title: m[2], keys: map[string]scenarioKey{}}
		for _, cells := range rows {
			ttl, err := time.ParseDuration(cells[2])
			require.NoError(t, err, "%v", cells)
			step.keys[strings.Trim(cells[0], "`")] = scenarioKey{value: strings.Trim(cells[1], "`"), ttl: ttl}
		}
		steps = append(steps, step)
	}
	return steps
}

// scenario is the queue of the page's scenario.
type scenario struct {
	*rig.Lab
	*Store
	queue string
}

// content gives what a key holds, in the page's form: members and entries with their scores and fields in between,
// and each in backquotes but for the outer ones.
func (s *scenario) content(t *testing.T, key string) string {
	t.Helper()
	do := func(command ...string) rueidis.RedisResult {
		command[1] = s.Conn.Prefix() + command[1]
		return s.Node.Do(t, command...)
	}
	kind, err := do("TYPE", key).ToString()
	require.NoError(t, err)
	var parts []string
	switch kind {
	case "zset":
		members, err := do("ZRANGE", key, "0", "-1", "WITHSCORES").AsZScores()
		require.NoError(t, err)
		for _, m := range members {
			parts = append(parts, decimal(int64(m.Score))+" "+m.Member)
		}
	case "hash":
		fields, err := do("HGETALL", key).AsStrMap()
		require.NoError(t, err)
		for name, value := range fields {
			parts = append(parts, name+" "+value)
		}
		slices.Sort(parts)
	case "stream":
		entries, err := do("XRANGE", key, "-", "+").ToArray()
		require.NoError(t, err)
		for _, e := range entries {
			pair, err := e.ToArray()
			require.NoError(t, err)
			words, err := pair[1].AsStrSlice()
			require.NoError(t, err)
			parts = append(parts, strings.Join(words, " "))
		}
	default:
		value, err := do("GET", key).ToString()
		require.NoError(t, err, key)
		return value
	}
	return strings.Join(parts, "` `")
}

func decimal(n int64) string {
	text, err := json.Marshal(n)
	if err != nil {
		panic(err) // it is a number
	}
	return string(text)
}

// scenarioSlack is much less than any two TTLs of the scenario differ by, and more than a test takes.
const scenarioSlack = 5 * time.Second

// holds compares all keys of the queue with a step's table.
func (s *scenario) holds(t *testing.T, step scenarioStep) {
	t.Helper()
	var want []string
	for key := range step.keys {
		want = append(want, key)
	}
	slices.Sort(want)
	require.Equal(t, want, s.Found(t), "the keys after %s", step.title)
	for key, k := range step.keys {
		pattern := rig.Shape(k.value)
		for placeholder, digits := range map[string]string{"<µs>": "[0-9]{16}", "<fence>": "[0-9]{16}", "<n>": "[0-9]+", "<attempt>": "[0-9A-Z]{26}", "<epoch>": "[0-9A-Z]{26}", "<SHA-1>": "[0-9a-f]{40}"} {
			pattern = strings.ReplaceAll(pattern, placeholder, digits)
		}
		require.Regexp(t, pattern, s.content(t, key), "%s after %s", key, step.title)
		require.InDelta(t, k.ttl, s.Life(t, key), float64(scenarioSlack), "the TTL of %s after %s", key, step.title)
	}
}

func (s *scenario) createTicket(t *testing.T, id string, skill float64) {
	t.Helper()
	r := matchmaking.CreateRequest{
		Queue: s.queue, ID: id, Attempt: ulid.Make().String(), Epoch: ulid.Make(),
		TTL: matchmaking.DefaultTicketTTL, Keep: matchmaking.DefaultAssignmentTTL,
		Spec: matchmaking.Spec{SearchFields: matchmaking.SearchFields{
			Tags: []string{"mode:casual"}, DoubleArgs: matchmaking.Doubles{"skill": skill},
		}},
	}
	require.NoError(t, errorOf2(s.Create(t.Context(), r)))
}

// TestTwoPlayers runs the scenario of docs/redis-internals.md, which is that of the source document on matchmaking, and
// compares all keys, values and TTLs after each step with the page.
func TestTwoPlayers(t *testing.T) {
	t.Parallel()
	l := rig.NewLab(t)
	s := &scenario{Lab: l, Store: New(l.Conn, Options{}), queue: "duel"}
	const a, b = "cko1234abc", "cko5678def"
	ctx, token := t.Context(), ulid.Make().String()
	request := lease.Request{Name: s.queue, Token: ulid.Make().String(), TTL: 10 * time.Second}
	var entries []string
	point := "0-0"
	run := map[string]func(){
		"player A creates a ticket": func() { s.createTicket(t, a, 1500) },
		"player B creates a ticket": func() { s.createTicket(t, b, 1520) },
		"the director claims both": func() {
			fence, err := s.Leases().Acquire(ctx, request)
			require.NoError(t, err)
			found, err := s.Changes(ctx, matchmaking.ChangesRequest{Queue: s.queue, After: point, Limit: 10})
			require.NoError(t, err)
			require.Equal(t, []string{a, b}, queuetest.Told(found.Changes))
			claimed, err := s.Claim(ctx, matchmaking.ClaimRequest{
				Queue: s.queue, Token: token, Fence: fence, Hold: matchmaking.DefaultPendingTimeout, IDs: []string{a, b},
			})
			require.NoError(t, err)
			require.Equal(t, []string{a, b}, claimed.IDs)
		},
		"the match is assigned": func() {
			m := matchmaking.AssignMatch{ID: "match-abc123"}
			for team, id := range []string{a, b} {
				content, err := json.Marshal(matchmaking.Assignment{
					TicketID: id, MatchID: m.ID, Queue: s.queue, Connection: "gameserver-123.example.com:7777", Team: team,
				})
				require.NoError(t, err)
				made, err := s.Ticket(ctx, s.queue, id)
				require.NoError(t, err)
				m.Assignments = append(m.Assignments, matchmaking.AssignTicket{
					ID: id, Created: made.CreateTime, Epoch: made.Epoch, Content: content,
				})
			}
			outcome := s.Assign(ctx, matchmaking.AssignRequest{
				Queue: s.queue, Token: token, Keep: matchmaking.DefaultAssignmentTTL, Matches: []matchmaking.AssignMatch{m},
			})[0]
			require.NoError(t, outcome.Err)
			require.Empty(t, outcome.Conflicts)
			entries = outcome.Entries
		},
		"the players get their assignments": func() { require.NoError(t, s.Delivered(ctx, s.queue, entries)) },
		"a minute later": func() {
			s.Pass(t, matchmaking.DefaultAssignmentTTL)
			require.NoError(t, s.Leases().Renew(ctx, []lease.Request{request})[0])
		},
	}
	steps := scenarioSteps(t)
	require.Len(t, steps, len(run))
	for _, step := range steps {
		require.Contains(t, run, step.title)
		run[step.title]()
		s.holds(t, step)
	}
}

func TestKeysOfAQueueShareASlotAndNothingElse(t *testing.T) {
	t.Parallel()
	kinds := map[string]func(q keys, id string) string{
		"waiting": func(q keys, _ string) string { return q.waiting() }, "expiries": func(q keys, _ string) string { return q.expiries() },
		"proposed": func(q keys, _ string) string { return q.proposed() }, "claims": func(q keys, _ string) string { return q.claims() },
		"changes": func(q keys, _ string) string { return q.changes() }, "outbox": func(q keys, _ string) string { return q.outbox() },
		"matched": func(q keys, _ string) string { return q.matched() }, "stats": func(q keys, _ string) string { return q.stats() },
		"director": func(q keys, _ string) string { return q.director() },
		"ticket":   keys.ticket, "assign": keys.assignment, "match": keys.match,
	}
	named := []string{"ticket", "assign", "match"}
	var all []string
	for kind := range kinds {
		all = append(all, kind)
	}
	slices.Sort(all)
	tricky := rapid.SampledFrom([]string{"claims", "ticket", "ticket.a", "a", "assign.a", "a.ticket.a", "match.a", "allTickets"})
	anyName := rapid.OneOf(tricky, rig.Names())
	type one struct{ kind, queue, id string }
	keys := rapid.Custom(func(t *rapid.T) one {
		m := one{kind: rapid.SampledFrom(all).Draw(t, "kind"), queue: anyName.Draw(t, "queue")}
		if slices.Contains(named, m.kind) {
			m.id = anyName.Draw(t, "id")
		}
		return m
	})
	rapid.Check(t, func(t *rapid.T) {
		prefix := rapid.SampledFrom([]string{"", "mm1:", "mm."}).Draw(t, "prefix")
		key := func(m one) string { return kinds[m.kind](keysOf(prefix, m.queue), m.id) }
		a, b := keys.Draw(t, "a"), keys.Draw(t, "b")
		require.Equal(t, a.queue, rig.HashTag(key(a)))
		require.True(t, strings.HasPrefix(key(a), prefix+"mm.{"))
		require.Equal(t, a == b, key(a) == key(b), "%s and %s", key(a), key(b))
		require.NotEqual(t, definitionsKey(prefix), key(a))
	})
}
