package queues

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/lease"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/test/storagetest"
	"github.com/tidemark-dev/tidemark/test/storagetest/queuetest"
)

var stepHeading = regexp.MustCompile(`(?m)^### Step (\d+): (.+)$`)

// scenario is the queue of the page's scenario.
type scenario struct {
	*storetest.Lab
	*Store
	queue string
}

// content returns the content of a key in the page's form: members and entries with their scores and fields in between,
// each in backquotes except the outer ones.
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
			parts = append(parts, strconv.FormatInt(int64(m.Score), 10)+" "+m.Member)
		}
	case "set":
		parts, err = do("SMEMBERS", key).AsStrSlice()
		require.NoError(t, err)
		slices.Sort(parts)
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
			for i := range words {
				words[i] = shown(t, words[i])
			}
			parts = append(parts, strings.Join(words, " "))
		}
	default:
		value, err := do("GET", key).ToString()
		require.NoError(t, err, key)
		return shown(t, value)
	}
	return strings.Join(parts, "` `")
}

// shown returns a value with JSON in place of the ticket's spec.
func shown(t *testing.T, value string) string {
	t.Helper()
	found, err := parseRecord("", "", []byte(value))
	if err != nil {
		return value
	}
	text, err := json.Marshal(found.Spec)
	require.NoError(t, err)
	encoded, err := encodeTicket(&found)
	require.NoError(t, err)
	return strings.TrimSuffix(value, string(encoded)) + string(text)
}

// scenarioSlack is much less than the difference of any two TTLs of the scenario, and more than the duration of the
// test.
const scenarioSlack = 5 * time.Second

func (s *scenario) createTicket(t *testing.T, id string, skill float64) {
	t.Helper()
	r := matchmaking.CreateRequest{
		Ticket: matchmaking.Ticket{
			Queue: s.queue, ID: id, Epoch: ulid.Make(), TTL: matchmaking.DefaultTicketTTL,
			Spec: matchmaking.Spec{SearchFields: matchmaking.SearchFields{
				Tags: []string{"mode:casual"}, DoubleArgs: matchmaking.Doubles{"skill": skill},
			}},
		},
		Attempt: ulid.Make().String(), Keep: matchmaking.DefaultAssignmentTTL,
	}
	require.NoError(t, storagetest.ErrorOf2(s.Create(t.Context(), r)))
}

// TestTwoPlayers runs the scenario of docs/redis/queues.md, which is that of minimatch's page on its keys, and
// compares all keys, values and TTLs after each step with the page.
func TestTwoPlayers(t *testing.T) {
	t.Parallel()
	l := storetest.NewLab(t)
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
			found, err := (&queuetest.Queue{Store: s, Name: s.queue}).Changes(ctx,
				matchmaking.ChangesRequest{After: point, Limit: 10})
			require.NoError(t, err)
			require.Equal(t, []string{a, b}, queuetest.ShortForm(found.Changes))
			claimed, err := s.Claim(ctx, matchmaking.ClaimRequest{
				Queue: s.queue, Token: token, Fence: fence, Hold: matchmaking.DefaultPendingTimeout,
				IDs: []string{a, b},
			})
			require.NoError(t, err)
			require.Equal(t, []string{a, b}, claimed.IDs)
		},
		"the match is assigned": func() {
			m := matchmaking.AssignMatch{ID: "match-abc123", Record: []byte(`{"matchId":"match-abc123"}`)}
			for team, id := range []string{a, b} {
				content, err := json.Marshal(matchmaking.Assignment{
					TicketID: id, MatchID: m.ID, Queue: s.queue, Connection: "gameserver-123.example.com:7777",
					Team: team,
				})
				require.NoError(t, err)
				created, err := s.Ticket(ctx, s.queue, id)
				require.NoError(t, err)
				m.Assignments = append(m.Assignments, matchmaking.AssignTicket{
					ID: id, Created: created.CreateTime, Epoch: created.Epoch, Content: content,
				})
			}
			outcome := s.Assign(ctx, matchmaking.AssignRequest{
				Queue: s.queue, Token: token, Keep: matchmaking.DefaultAssignmentTTL,
				Matches: []matchmaking.AssignMatch{m},
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
	steps := storetest.Steps(t, "queues", "## Two players are matched", stepHeading)
	require.Len(t, steps, len(run))
	for _, step := range steps {
		require.Contains(t, run, step.Title)
		run[step.Title]()
		s.RequireStep(t, step, scenarioSlack, func(key string) string { return s.content(t, key) },
			func(text string) time.Duration {
				ttl, err := time.ParseDuration(text)
				require.NoError(t, err, text)
				return ttl
			})
	}
}

func TestKeysOfAQueueShareASlotAndNothingElse(t *testing.T) {
	t.Parallel()
	names := storetest.AnyName("claims", "ticket", "ticket.a", "a", "assign.a", "a.ticket.a", "match.a", "allTickets")
	fixed := func(key func(keys) string) storetest.KeyKind {
		return storetest.KeyKind{Key: func(prefix, name, _ string) string { return key(keysOf(prefix, name)) }}
	}
	named := func(key func(keys, string) string) storetest.KeyKind {
		return storetest.KeyKind{Key: func(prefix, name, part string) string { return key(keysOf(prefix, name), part) },
			Parts: names}
	}
	storetest.RequireOwnKeys(t, "mm.", names, map[string]storetest.KeyKind{
		"waiting": fixed(keys.waiting), "expiries": fixed(keys.expiries), "proposed": fixed(keys.proposed),
		"claims":  fixed(keys.claims),
		"changes": fixed(keys.changes), "outbox": fixed(keys.outbox), "matched": fixed(keys.matched),
		"stats":    fixed(keys.stats),
		"director": fixed(keys.director), "ticket": named(keys.ticket), "assign": named(keys.assignment),
		"match": named(keys.match),
	})
}
