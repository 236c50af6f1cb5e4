package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/matchmaking/assigner"
	"github.com/tidemark-dev/tidemark/matchmaking/function"
	"github.com/tidemark-dev/tidemark/matchmaking/onchannels"
	"github.com/tidemark-dev/tidemark/matchmaking/service"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/wire"
)

// duel is a queue of the configuration in tests.
const duel = `{"assigner": {"connection": "127.0.0.1:7777", "secret": "hush"}, "teammates": true, "maxTicketBytes": 2000}`

// withQueues makes a harness with matchmaking, and these queues configured beside duel: names and definitions by turns.
func withQueues(queues ...string) func(*setup) {
	return func(s *setup) {
		queues := append([]string{"duel", duel}, queues...)
		for i := 0; i < len(queues); i += 2 {
			d, err := matchmaking.ParseDefinition(queues[i], []byte(queues[i+1]))
			if err != nil {
				panic(err)
			}
			s.queues = append(s.queues, d)
		}
	}
}

// newMatchmaking makes a service that runs until the test ends.
func newMatchmaking(
	t testing.TB, store *redis.Store, lookup matchmaking.Lookup, channels *channel.Service, queues []matchmaking.Definition,
) *service.Service {
	t.Helper()
	s, err := service.New(service.Options{
		Store: store.Queues(redis.QueueOptions{}), Lookup: lookup, Channels: onchannels.New(channels), Definitions: queues, ChannelTTL: time.Hour, Logger: slog.New(slog.DiscardHandler),
		Build: func(d matchmaking.Definition) (matchmaking.Parts, error) {
			a, err := assigner.New(d, nil)
			matcher := function.FirstCome(d.Match.Teams, d.Match.TeamSize)
			return matchmaking.Parts{Matcher: matcher, Evaluator: function.Decollide{}, Assigner: a}, err
		},
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	return s
}

// create makes a ticket.
func (h *harness) create(body string) wire.CreatedTicket {
	h.t.Helper()
	got := h.do("POST", "/v1/tickets", body)
	require.Equal(h.t, http.StatusCreated, got.status, "%s", got.body)
	return decode[wire.CreatedTicket](got)
}

// ticket tells of a ticket.
func (h *harness) ticket(id string) wire.Ticket {
	h.t.Helper()
	got := h.do("GET", "/v1/tickets/"+id, "")
	require.Equal(h.t, http.StatusOK, got.status, "%s", got.body)
	return decode[wire.Ticket](got)
}

// assignment long-polls a ticket's channel for its assignment.
func (h *harness) assignment(c wire.CreatedTicket) wire.Assignment {
	h.t.Helper()
	got := h.do("GET", c.MessagesURL+"?wait=1m", "")
	require.Equal(h.t, http.StatusOK, got.status, "%s", got.body)
	d := decode[wire.Delivery](got)
	require.Len(h.t, d.Messages, 1)
	var a wire.Assignment
	require.NoError(h.t, json.Unmarshal(d.Messages[0].Content, &a))
	require.Equal(h.t, wire.AssignmentMessagePrefix+a.MatchID, d.Messages[0].ID)
	return a
}

// TestTwoPlayers goes the way of two players from their tickets to their assignments.
func TestTwoPlayers(t *testing.T) {
	t.Parallel()
	h := start(t, withQueues())
	ann := h.create(`{"queue":"duel","id":"ann","extensions":{"party":{"size":1}}}`)
	require.Equal(t, wire.CreatedTicket{
		ID: "ann", Queue: "duel", Status: wire.TicketSearching, CreateTime: ann.CreateTime, Channel: "ticket.ann", Subscriber: "player",
		ChannelURL: "/v1/channels/ticket.ann", MessagesURL: "/v1/channels/ticket.ann/subscribers/player/messages",
	}, ann)
	require.Equal(t, http.StatusOK, h.do("GET", ann.ChannelURL, "").status)
	require.Equal(t, wire.TicketSearching, h.ticket("ann").Status)

	polls := h.waiting(t.Context(), 1, "GET", ann.MessagesURL+"?wait=1m", "")
	bob := h.create(`{"queue":"duel"}`)
	require.Len(t, bob.ID, 26)
	require.Len(t, decode[wire.Delivery](<-polls).Messages, 1)
	forAnn, forBob := h.assignment(ann), h.assignment(bob)
	require.Equal(t, wire.Assignment{TicketID: "ann", MatchID: forAnn.MatchID, Queue: "duel", Connection: "127.0.0.1:7777"}, forAnn)
	require.Equal(t, forAnn.MatchID, forBob.MatchID)
	require.Equal(t, []int{0, 1}, []int{forAnn.Team, forBob.Team})

	got := h.ticket("ann")
	require.Equal(t, wire.TicketMatchFound, got.Status)
	require.Equal(t, forAnn.MatchID, got.MatchID)
	require.Equal(t, &forAnn, got.Assignment)
	require.JSONEq(t, `{"size":1}`, string(got.Extensions["party"]))
	h.do("DELETE", "/v1/tickets/ann", "").problem(409, fault.SlugTicketMatched)

	// Asking for it again gives what there is.
	again := h.do("POST", "/v1/tickets", `{"queue":"duel","id":"ann"}`)
	require.Equal(t, http.StatusOK, again.status)
	require.Empty(t, again.header.Get("Location"))
	ann.Status = wire.TicketMatchFound
	require.Equal(t, ann, decode[wire.CreatedTicket](again))
}

// TestTicketKeepsWhatItWasMadeWith compares what is read with what was sent.
func TestTicketKeepsWhatItWasMadeWith(t *testing.T) {
	t.Parallel()
	h := start(t, withQueues())
	const spec = `"searchFields":{"tags":["eu","<b>"],"doubleArgs":{"level":12.5,"nan":"NaN","max":"Infinity"},"stringArgs":{"map":"harbor"}},` +
		`"criteria":[{"name":"skill","minValue":-1,"maxValue":1500.5}],"statistics":[{"name":"skill","value":1200}],` +
		`"numTeams":3,"teamSize":2,"extensions":{"a":{"b":[1,null]}},"persistentField":{"c":"d"}`
	created := h.do("POST", "/v1/tickets", `{"id":"t",`+spec+`,"ttl":"5m"}`)
	require.Equal(t, http.StatusCreated, created.status, "%s", created.body)
	require.Equal(t, "/v1/tickets/t", created.header.Get("Location"))
	got := h.do("GET", created.header.Get("Location"), "")
	require.Equal(t, "no-store", got.header.Get("Cache-Control"))
	ticket := decode[wire.Ticket](got)
	require.Equal(t, "default", ticket.Queue)
	require.EqualValues(t, 300_000, ticket.TTLMillis)
	require.EqualValues(t, 300_000, ticket.LifeMillis)
	require.Equal(t, 5*time.Minute, ticket.ExpireTime.Sub(ticket.CreateTime).Round(time.Second))
	head := fmt.Sprintf(`"id":"t","queue":"default","status":"SEARCHING","createTime":%q,"channel":"ticket.t","subscriber":"player",`+
		`"channelUrl":"/v1/channels/ticket.t","messagesUrl":"/v1/channels/ticket.t/subscribers/player/messages","expireTime":%q,"ttlMs":300000,"lifeMs":300000`,
		ticket.CreateTime.Format(time.RFC3339Nano), ticket.ExpireTime.Format(time.RFC3339Nano))
	got.like(200, `{`+head+`,`+spec+`}`)
}

func TestCancelTicket(t *testing.T) {
	t.Parallel()
	h := start(t, withQueues())
	ann := h.create(`{"queue":"duel","id":"ann"}`)
	polls := h.waiting(t.Context(), 1, "GET", ann.MessagesURL+"?wait=1m", "")
	for range 2 {
		h.do("DELETE", "/v1/tickets/ann", "").is(204, "")
	}
	require.Equal(t, wire.TicketCancelled, h.ticket("ann").Status)
	got := <-polls
	got.problem(404, fault.SlugNoSubscriber)

	h.do("DELETE", "/v1/tickets/nobody", "").is(204, "")
	h.do("GET", "/v1/tickets/nobody", "").problem(404, fault.SlugNoTicket)
	h.create(`{"queue":"duel","id":"bob"}`)
	require.Equal(t, wire.TicketSearching, h.ticket("bob").Status, "there is nobody left to play with")
}

// TestHeartbeat shows that polling a ticket's channel keeps it, and that a ticket whose player has gone drops out.
func TestHeartbeat(t *testing.T) {
	t.Parallel()
	h := start(t, withQueues("lively", `{"heartbeat":"400ms","match":{"teams":3}}`))
	gone := h.create(`{"queue":"lively","id":"gone"}`)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	here := h.create(`{"queue":"lively","id":"here"}`)
	polls := h.waiting(ctx, 1, "POST", strings.TrimSuffix(here.MessagesURL, "messages")+"next", `{"wait":"1m"}`)
	statusOf := func(id string) matchmaking.Status { // without the sign of life that asking by HTTP would be
		ticket, err := h.matches.Ticket(ctx, id)
		require.NoError(t, err)
		return ticket.Status
	}
	require.Eventually(t, func() bool { return statusOf(gone.ID) == matchmaking.Expired }, time.Minute, 10*time.Millisecond)
	require.Eventually(t, func() bool {
		d, err := h.matches.Describe(ctx, "lively")
		return err == nil && d.OldestWait > 2*time.Second && statusOf(here.ID) == matchmaking.Searching
	}, time.Minute, 10*time.Millisecond)
	leave()
	<-polls
	ctx = t.Context()
	require.Eventually(t, func() bool { return statusOf(here.ID) == matchmaking.Expired }, time.Minute, 10*time.Millisecond)
}

// TestLifeOfATicketWithAHeartbeat reads how long it lives without signs of life, and at most.
func TestLifeOfATicketWithAHeartbeat(t *testing.T) {
	t.Parallel()
	h := start(t, withQueues("lively", `{"heartbeat":"20s","match":{"teams":3}}`))
	h.create(`{"queue":"lively","id":"t","ttl":"5m"}`)
	ticket := h.ticket("t")
	require.EqualValues(t, 20_000, ticket.TTLMillis)
	require.EqualValues(t, 300_000, ticket.LifeMillis)
}

// badMatchCalls are requests about tickets and queues that are refused. Their problems are in testdata/tickets, by name.
var badMatchCalls = map[string]string{
	"path-below-ticket":          "GET /v1/tickets/t/x",
	"path-below-queue":           "GET /v1/queues/q/x",
	"path-no-ticket":             "GET /v1/tickets/",
	"method-of-ticket":           "PUT /v1/tickets/t {}",
	"method-of-tickets":          "GET /v1/tickets",
	"query":                      "GET /v1/tickets/t?wait=1s",
	"ticket-missing":             "GET /v1/tickets/t",
	"ticket-bad-id":              "GET /v1/tickets/%7B%7D",
	"ticket-long-id":             "GET /v1/tickets/" + strings.Repeat("n", 122),
	"create-empty":               "POST /v1/tickets",
	"create-array":               "POST /v1/tickets []",
	"create-unknown-member":      `POST /v1/tickets {"queue":"duel","assignment":{}}`,
	"create-duplicate":           `POST /v1/tickets {"extensions":{"a":{"b":1,"b":2}}}`,
	"create-not-utf8":            "POST /v1/tickets {\"id\":\"\xff\"}",
	"create-queue-missing":       `POST /v1/tickets {"queue":"nowhere"}`,
	"create-queue-bad":           `POST /v1/tickets {"queue":"a b"}`,
	"create-queue-empty":         `POST /v1/tickets {"queue":""}`,
	"create-id-bad":              `POST /v1/tickets {"id":"a/b"}`,
	"create-id-long":             `POST /v1/tickets {"id":"` + strings.Repeat("n", 122) + `"}`,
	"create-id-empty":            `POST /v1/tickets {"id":""}`,
	"create-id-of-other-queue":   `POST /v1/tickets {"id":"taken"}`,
	"create-ttl-text":            `POST /v1/tickets {"ttl":"soon"}`,
	"create-ttl-number":          `POST /v1/tickets {"ttl":300}`,
	"create-ttl-short":           `POST /v1/tickets {"ttl":"1ms"}`,
	"create-ttl-long":            `POST /v1/tickets {"ttl":"11m"}`,
	"create-teams":               `POST /v1/tickets {"numTeams":-1}`,
	"create-teams-many":          `POST /v1/tickets {"numTeams":100,"teamSize":2}`,
	"create-criterion-no-name":   `POST /v1/tickets {"criteria":[{"name":"","minValue":0,"maxValue":1}]}`,
	"create-criterion-turned":    `POST /v1/tickets {"criteria":[{"name":"skill","minValue":2,"maxValue":1}]}`,
	"create-criterion-no-max":    `POST /v1/tickets {"criteria":[{"name":"skill","minValue":2}]}`,
	"create-statistic-infinite":  `POST /v1/tickets {"statistics":[{"name":"skill","value":1e999}]}`,
	"create-double-text":         `POST /v1/tickets {"searchFields":{"doubleArgs":{"a":"high"}}}`,
	"create-too-large":           `POST /v1/tickets {"queue":"duel","extensions":{"a":"` + strings.Repeat("x", 2000) + `"}}`,
	"queue-missing":              "GET /v1/queues/nowhere",
	"queue-bad-name":             "GET /v1/queues/%7B%7D",
	"queue-put-bad-name":         "PUT /v1/queues/%7B%7D {}",
	"queue-put-configured":       "PUT /v1/queues/duel {}",
	"queue-put-empty":            "PUT /v1/queues/q",
	"queue-put-array":            "PUT /v1/queues/q []",
	"queue-put-twice":            `PUT /v1/queues/q {"match":{"teams":1,"teams":2}}`,
	"queue-put-unknown-key":      `PUT /v1/queues/q {"match":{"team":1}}`,
	"queue-put-teams":            `PUT /v1/queues/q {"match":{"teams":0}}`,
	"queue-put-widen":            `PUT /v1/queues/q {"match":{"widen":[{"after":"5s","by":{"a.b":-1}}]}}`,
	"queue-put-ttl":              `PUT /v1/queues/q {"ticketTTL":"2h"}`,
	"queue-put-duration":         `PUT /v1/queues/q {"ticketTTL":5}`,
	"queue-put-file":             `PUT /v1/queues/q {"assigner":{"secretFile":"x"}}`,
	"queue-delete-configured":    "DELETE /v1/queues/duel",
	"queue-delete-bad-name":      "DELETE /v1/queues/%7B%7D",
	"queue-delete-in-use":        "DELETE /v1/queues/busy",
	"queue-method":               "POST /v1/queues/q {}",
	"queues-method":              "POST /v1/queues {}",
	"queues-query":               "GET /v1/queues?x",
	"queue-describe-slash":       "GET /v1/queues/a%2Fb",
	"create-criterion-extra-key": `POST /v1/tickets {"criteria":[{"name":"skill","minValue":2,"maxValue":3,"weight":1}]}`,
}

// TestBadInputOfMatchmaking holds the problems of bad requests against testdata/tickets.
func TestBadInputOfMatchmaking(t *testing.T) {
	t.Parallel()
	h := start(t, withQueues())
	require.Equal(t, http.StatusCreated, h.do("PUT", "/v1/queues/busy", "{}").status)
	h.create(`{"queue":"busy","id":"taken"}`)
	t.Run("call", func(t *testing.T) {
		for name, call := range badMatchCalls {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				h := *h
				h.t = t
				method, path, body := cut(call)
				got := h.do(method, path, body, header{"X-Request-Id", "the-id"})
				require.Equal(t, wire.MediaProblem, got.header.Get("Content-Type"))
				require.GreaterOrEqual(t, got.status, 400)
				require.Less(t, got.status, 500)
				golden(t, filepath.Join("testdata", "tickets", name+".json"), got.body)
			})
		}
	})
	files, err := filepath.Glob(filepath.Join("testdata", "tickets", "*.json"))
	require.NoError(t, err)
	require.Len(t, files, len(badMatchCalls))
	require.Equal(t, wire.TicketSearching, h.ticket("taken").Status)
}

func TestFullQueue(t *testing.T) {
	t.Parallel()
	h := start(t, withQueues("small", `{"maxTickets":1,"match":{"teams":3}}`))
	h.create(`{"queue":"small","id":"first"}`)
	got := h.do("POST", "/v1/tickets", `{"queue":"small"}`)
	p := got.problem(503, fault.SlugQueueFull)
	require.Equal(t, "1", got.header.Get("Retry-After"))
	require.Equal(t, 1, p.RetryAfter)
	require.Equal(t, 200, h.do("POST", "/v1/tickets", `{"queue":"small","id":"first"}`).status, "a retry is welcome")
	h.do("DELETE", "/v1/tickets/first", "").is(204, "")
	h.create(`{"queue":"small"}`)
}

func TestWithoutMatchmaking(t *testing.T) {
	t.Parallel()
	h := start(t)
	for _, call := range []string{"POST /v1/tickets", "GET /v1/tickets/t", "GET /v1/queues", "PUT /v1/queues/q"} {
		got := h.raw(call + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}") // the contract is that of a service with it
		got.problem(404, fault.SlugNoPath)
	}
	h.subscribe("ticket.t", "player")
	require.Empty(t, h.fetch("ticket.t", "player").Messages)
	require.Zero(t, decode[wire.Info](h.do("GET", "/v1/info", "")).Queues)
}

// TestNamesOfTickets holds the names that package wire can't import against those of matchmaking.
func TestNamesOfTickets(t *testing.T) {
	t.Parallel()
	require.Equal(t, matchmaking.ChannelPrefix, wire.TicketChannelPrefix)
	require.Equal(t, matchmaking.Subscriber, wire.TicketSubscriber)
	require.Equal(t, matchmaking.MessagePrefix, wire.AssignmentMessagePrefix)
	for status, told := range map[matchmaking.Status]string{
		matchmaking.Searching: wire.TicketSearching, matchmaking.Pending: wire.TicketPending, matchmaking.MatchFound: wire.TicketMatchFound,
		matchmaking.Cancelled: wire.TicketCancelled, matchmaking.Expired: wire.TicketExpired,
	} {
		require.Equal(t, string(status), told)
	}
}

// TestTicketsOnAStorageThatFails shows that a player is told to come again, and that no ticket is left behind.
func TestTicketsOnAStorageThatFails(t *testing.T) {
	t.Parallel()
	h := start(t, withQueues())
	h.store.fail(fault.ErrUnavailable)
	got := h.do("POST", "/v1/tickets", `{"queue":"duel","id":"ann"}`)
	got.problem(503, fault.SlugUnavailable)
	require.Equal(t, "1", got.header.Get("Retry-After"))
	h.store.fail(nil)
	h.do("GET", "/v1/tickets/ann", "").problem(404, fault.SlugNoTicket)
	h.create(`{"queue":"duel","id":"ann"}`)
}
