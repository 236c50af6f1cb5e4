package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/matchmaking/assigner"
	"github.com/tidemark-dev/tidemark/matchmaking/delivery"
	"github.com/tidemark-dev/tidemark/matchmaking/function"
	"github.com/tidemark-dev/tidemark/matchmaking/service"
	"github.com/tidemark-dev/tidemark/openmatch"
	"github.com/tidemark-dev/tidemark/server/internal/servertest"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/queues"
	"github.com/tidemark-dev/tidemark/wire"
)

// duel is a queue of the configuration in tests.
const duel = `{"assigner": {"connection": "127.0.0.1:7777", "secret": "hush"}, "reveal": "opponents", "maxTicketBytes": 2000}`

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

// newMatchmaking returns a service that runs until the test ends.
func newMatchmaking(t testing.TB, conn *redis.Conn, lookup matchmaking.Lookup, channels *channel.Service,
	with *setup) *service.Service {
	t.Helper()
	s, err := service.New(service.Options{
		Store: queues.New(conn, queues.Options{}), Lookup: lookup, Channels: delivery.New(channels),
		Definitions: with.queues,
		ChannelTTL:  time.Hour, Token: with.token, Logger: slog.New(slog.DiscardHandler),
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

// create creates a ticket.
func (h *harness) create(body string) wire.CreatedTicket {
	h.t.Helper()
	got := h.do("POST", "/v1/tickets", body)
	require.Equal(h.t, http.StatusCreated, got.status, "%s", got.body)
	return decode[wire.CreatedTicket](got)
}

// ticket reads a ticket.
func (h *harness) ticket(id string) wire.Ticket {
	h.t.Helper()
	got := h.do("GET", "/v1/tickets/"+id, "")
	require.Equal(h.t, http.StatusOK, got.status, "%s", got.body)
	return decode[wire.Ticket](got)
}

// assignment waits for the assignment on a ticket's channel.
func (h *harness) assignment(c wire.CreatedTicket) matchmaking.Assignment {
	h.t.Helper()
	got := h.do("GET", c.MessagesURL+"?wait=1m", "")
	require.Equal(h.t, http.StatusOK, got.status, "%s", got.body)
	d := decode[wire.Delivery](got)
	require.Len(h.t, d.Messages, 1)
	var a matchmaking.Assignment
	require.NoError(h.t, json.Unmarshal(d.Messages[0].Content, &a))
	require.Equal(h.t, matchmaking.MessagePrefix+a.MatchID, d.Messages[0].ID)
	return a
}

// TestTwoPlayers follows two players from their tickets to their assignments, by REST.
func TestTwoPlayers(t *testing.T) {
	t.Parallel()
	h := start(t, withQueues())
	ann := h.create(`{"queue":"duel","id":"ann"}`)
	require.Equal(t, wire.CreatedTicket{
		ID: "ann", Queue: "duel", Status: string(matchmaking.Searching), CreateTime: ann.CreateTime, Channel: "ticket.ann",
		Subscriber: "player",
		ChannelURL: "/v1/channels/ticket.ann", MessagesURL: "/v1/channels/ticket.ann/subscribers/player/messages",
	}, ann)
	polls := h.waiting(t.Context(), 1, "GET "+ann.MessagesURL+"?wait=1m")
	bob := h.create(`{"queue":"duel"}`)
	queue, made := matchmaking.QueueOf(bob.ID)
	require.True(t, made)
	require.Equal(t, "duel", queue)
	require.Len(t, decode[wire.Delivery](<-polls).Messages, 1)
	forAnn, forBob := h.assignment(ann), h.assignment(bob)
	require.Equal(t, matchmaking.Assignment{
		TicketID: "ann", MatchID: forAnn.MatchID, Queue: "duel", Connection: "127.0.0.1:7777",
		Opponents: []string{bob.ID},
	}, forAnn)
	require.Equal(t, forAnn.MatchID, forBob.MatchID)
	require.Equal(t, []int{0, 1}, []int{forAnn.Team, forBob.Team})

	got := h.ticket("ann")
	require.Equal(t, string(matchmaking.MatchFound), got.Status)
	require.Equal(t, &forAnn, got.Assignment)
	h.do("DELETE", "/v1/tickets/ann", "").problem(409, fault.SlugTicketMatched)

	want := wire.Match{
		ID: forAnn.MatchID, Queue: "duel", Connection: "127.0.0.1:7777",
		Teams: [][]wire.MatchedTicket{{{ID: "ann", Players: 1}}, {{ID: bob.ID, Players: 1}}},
	}
	for _, query := range []string{"", "?queue=duel"} {
		match := decode[wire.Match](h.do("GET", "/v1/matches/"+forAnn.MatchID+query, ""))
		require.False(t, match.AssignTime.Before(bob.CreateTime))
		want.AssignTime = match.AssignTime
		require.Equal(t, want, match)
	}
	h.do("GET", "/v1/matches/"+forAnn.MatchID+"?queue=trio", "").problem(404, fault.SlugNoMatch)
	h.do("GET", "/v1/matches/m?queue=duel", "").problem(404, fault.SlugNoMatch)
	h.do("GET", "/v1/matches/a%7Bb?queue=duel", "").problem(404, fault.SlugNoMatch)
	require.Equal(t, "queue", h.do("GET", "/v1/matches/m", "").problem(400, fault.SlugInvalidQueue).Field)
	require.Equal(t, "queue", h.do("GET", "/v1/matches/m?queue=a%7Bb", "").problem(400, fault.SlugInvalidQueue).Field)
	require.Equal(t, "q", h.do("GET", "/v1/matches/m?q=duel", "").problem(400, fault.SlugInvalidQuery).Field)

	again := h.do("POST", "/v1/tickets", `{"queue":"duel","id":"ann"}`)
	require.Equal(t, http.StatusOK, again.status)
	require.Empty(t, again.header.Get("Location"))
	ann.Status = string(matchmaking.MatchFound)
	require.Equal(t, ann, decode[wire.CreatedTicket](again))
}

// TestChannelsThatAreMadeLater asks for the channels of tickets that were created without: while they wait, once they
// are assigned, when they are over, and for tickets that don't exist.
func TestChannelsThatAreMadeLater(t *testing.T) {
	t.Parallel()
	h := start(t, withQueues("alone", `{"match":{"teams":3}}`))
	make := func(queue string) wire.CreatedTicket {
		made, _, err := h.matches.Create(t.Context(), service.NewTicket{Queue: queue, ChannelLater: true})
		require.NoError(t, err)
		at := "/v1/channels/" + matchmaking.ChannelOf(made.ID)
		return wire.CreatedTicket{ID: made.ID, ChannelURL: at, MessagesURL: at + "/subscribers/player/messages"}
	}
	ann := make("duel")
	require.EqualValues(t, 1, decode[wire.Description](h.do("GET", ann.ChannelURL, "")).SubscriberCount)
	bob := make("duel")
	require.Eventually(t, func() bool { return h.ticket(bob.ID).Status == string(matchmaking.MatchFound) }, servertest.Patience,
		servertest.Step)
	for range 2 {
		require.Equal(t, h.assignment(ann).MatchID, h.assignment(bob).MatchID, "it is published when it is asked for")
	}
	handle := decode[wire.Delivery](h.do("GET", bob.MessagesURL, "")).ReceiptHandle
	h.do("POST", strings.TrimSuffix(bob.MessagesURL, "messages")+"ack", `{"receiptHandle":"`+handle+`"}`).is(204, "")
	require.Empty(t, decode[wire.Delivery](h.do("GET", bob.MessagesURL+"?wait=1s", "")).Messages, "once")
	require.EqualValues(t, 1, decode[wire.Description](h.do("GET", bob.ChannelURL, "")).SubscriberCount)
	undescribed := make("duel")
	make("duel")
	require.Eventually(t, func() bool { return h.ticket(undescribed.ID).Status == string(matchmaking.MatchFound) },
		servertest.Patience, servertest.Step)
	require.EqualValues(t, 1, decode[wire.Description](h.do("GET", undescribed.ChannelURL, "")).Live)

	waits := make("alone")
	polls := h.waiting(t.Context(), 1, "GET "+waits.MessagesURL+"?wait=1m")
	require.Equal(t, http.StatusNoContent, h.do("DELETE", "/v1/tickets/"+waits.ID, "").status)
	(<-polls).problem(404, fault.SlugNoSubscriber)
	for _, ticket := range []string{waits.ID, matchmaking.NewID("alone"), matchmaking.NewID("no-queue"), "chosen"} {
		at := "/v1/channels/" + matchmaking.ChannelOf(ticket)
		h.do("GET", at+"/subscribers/player/messages?wait=1m", "").problem(404, fault.SlugNoSubscriber)
		h.do("GET", at+"/subscribers/other/messages", "").problem(404, fault.SlugNoSubscriber)
		if ticket != waits.ID {
			h.do("GET", at, "").problem(404, fault.SlugNoChannel)
		}
	}
}

// TestPlayersOfBothKinds matches a player who came by REST with one who came by gRPC. A drain ends watches.
func TestPlayersOfBothKinds(t *testing.T) {
	t.Parallel()
	h := start(t, withQueues())
	var watches []openmatch.FrontendService_WatchAssignmentsClient
	for _, p := range servertest.Protocols {
		f := openmatch.NewFrontendServiceClient(p.Dial(t, h.grpcAddr, h.url))
		inQueue := metadata.AppendToOutgoingContext(t.Context(), "tidemark-queue", "duel")
		ann, err := f.CreateTicket(inQueue, &openmatch.CreateTicketRequest{Ticket: &openmatch.Ticket{}})
		require.NoError(t, err)
		bob := h.create(`{"queue":"duel"}`)
		watch, err := f.WatchAssignments(t.Context(), &openmatch.WatchAssignmentsRequest{TicketId: ann.GetId()})
		require.NoError(t, err)
		got, err := watch.Recv()
		require.NoError(t, err)
		require.Equal(t, "127.0.0.1:7777", got.GetAssignment().GetConnection())
		require.Equal(t, "127.0.0.1:7777", h.assignment(bob).Connection)
		require.Equal(t, h.ticket(bob.ID).MatchID, h.ticket(ann.GetId()).MatchID)
		overHTTP := wire.CreatedTicket{MessagesURL: "/v1/channels/" + matchmaking.ChannelOf(ann.GetId()) +
			"/subscribers/player/messages"}
		require.Equal(t, h.ticket(bob.ID).MatchID, h.assignment(overHTTP).MatchID)
		watches = append(watches, watch)
	}
	h.stop()
	for _, watch := range watches {
		_, err := watch.Recv()
		require.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
	}
	require.NoError(t, <-h.stopped)
}

// TestTickets calls every route of tickets for each of its answers.
func TestTickets(t *testing.T) {
	t.Parallel()
	h := start(t, withQueues("small", `{"maxTickets":1,"match":{"teams":3}}`, "lively",
		`{"heartbeat":"20s","match":{"teams":3}}`))
	const spec = `"searchFields":{"tags":["eu","<b>"],"doubleArgs":{"level":12.5,"nan":"NaN","max":"Infinity"},"stringArgs":{"map":"harbor"}},` +
		`"criteria":[{"name":"skill","minValue":-1,"maxValue":1500.5}],"statistics":[{"name":"skill","value":1200}],` +
		`"numTeams":3,"teamSize":2,"extensions":{"a":{"b":[1,null]}},"persistentField":{"c":"d"}`
	head := func(id, queue, status string) string {
		return fmt.Sprintf(
			`"id":%q,"queue":%q,"status":%q,"createTime":"*","channel":"ticket.%[1]s","subscriber":"player",`+
				`"channelUrl":"/v1/channels/ticket.%[1]s","messagesUrl":"/v1/channels/ticket.%[1]s/subscribers/player/messages"`, id, queue, status)
	}
	h.play(
		step{`POST /v1/tickets {"id":"t",` + spec + `,"ttl":"5m"}`, 201, `{` + head("t", "default", "SEARCHING") + `}`},
		step{"GET /v1/tickets/t", 200, `{` + head("t", "default", "SEARCHING") +
			`,"expireTime":"*","ttlMs":"*","lifeMs":300000,` + spec + `}`},
		step{`POST /v1/tickets {"id":"01ARZ3NDEKTSV4RRFFQ69G5FAV.duel"}`, 400, "invalid-ticket"},
		step{"GET /v1/tickets/nobody", 404, "ticket-not-found"},
		step{"GET /v1/tickets/01ARZ3NDEKTSV4RRFFQ69G5FAV.duel", 404, "ticket-not-found"},
		step{"DELETE /v1/tickets/t", 204, ""},
		step{"DELETE /v1/tickets/t", 204, ""},
		step{"DELETE /v1/tickets/nobody", 204, ""},
		step{`POST /v1/tickets {"queue":"small","id":"first"}`, 201, `{` + head("first", "small", "SEARCHING") + `}`},
		step{`POST /v1/tickets {"queue":"small"}`, 503, "queue-full"},
		step{`POST /v1/tickets {"queue":"small","id":"first"}`, 200, `{` + head("first", "small", "SEARCHING") + `}`},
		step{`POST /v1/tickets {"queue":"lively","id":"l","ttl":"5m"}`, 201, `{` + head("l", "lively", "SEARCHING") +
			`}`},
	)
	require.Equal(t, string(matchmaking.Cancelled), h.ticket("t").Status)
	lively := h.ticket("l")
	require.EqualValues(t, 20_000, lively.TTLMillis)
	require.EqualValues(t, 300_000, lively.LifeMillis)
	const nanoseconds = `{"queue":"lively","persistentField":{"ttl":{"@type":"type.googleapis.com/google.protobuf.Int64Value","value":"%d"}}}`
	require.EqualValues(t, 30_000, h.ticket(h.create(fmt.Sprintf(nanoseconds, 30*time.Second)).ID).LifeMillis)
	h.do("POST", "/v1/tickets", fmt.Sprintf(nanoseconds, 1)).problem(400, fault.SlugInvalidTicket)
	require.Equal(t, "/v1/tickets/u", h.do("POST", "/v1/tickets", `{"id":"u"}`).header.Get("Location"))

	polls := h.waiting(t.Context(), 1, "GET /v1/channels/ticket.u/subscribers/player/messages?wait=1m")
	h.do("DELETE", "/v1/tickets/u", "").is(204, "")
	require.Equal(t, 404, (<-polls).status, "a cancelled ticket's poll ends")

	h.store.fail(fault.ErrUnavailable)
	h.do("POST", "/v1/tickets", `{"queue":"duel","id":"ann"}`).problem(503, fault.SlugUnavailable)
	h.store.fail(nil)
	h.do("GET", "/v1/tickets/ann", "").problem(404, fault.SlugNoTicket)
}

// TestHeartbeat: a poll of the ticket's channel keeps it, and a ticket whose player has gone expires.
func TestHeartbeat(t *testing.T) {
	t.Parallel()
	h := start(t, withQueues("lively", `{"heartbeat":"1s","match":{"teams":3}}`))
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	gone, here := h.create(`{"queue":"lively","id":"gone"}`), h.create(`{"queue":"lively","id":"here"}`)
	polls := h.waiting(ctx, 1, "POST "+strings.TrimSuffix(here.MessagesURL, "messages")+`next {"wait":"1m"}`)
	statusOf := func(id string) matchmaking.Status { // without the heartbeat that GET is
		ticket, err := h.matches.Ticket(t.Context(), id)
		require.NoError(t, err)
		return ticket.Status
	}
	expires := func(id string) {
		t.Helper()
		require.Eventually(t, func() bool { return statusOf(id) == matchmaking.Expired }, servertest.Patience,
			10*servertest.Step)
	}
	expires(gone.ID)
	require.Eventually(t, func() bool {
		d, err := h.matches.Describe(t.Context(), "lively")
		return err == nil && d.OldestWait > 2500*time.Millisecond && statusOf(here.ID) == matchmaking.Searching
	}, servertest.Patience, 10*servertest.Step)
	leave()
	<-polls
	expires(here.ID)
}

// TestReservedChannels: assignments can't be forged, since clients can't write to a ticket's channel, and neither can
// what else the service keeps for itself.
func TestReservedChannels(t *testing.T) {
	t.Parallel()
	h := start(t, withQueues(), func(s *setup) { s.Reserved = []string{"cache:"} })
	ann := h.create(`{"queue":"duel","id":"ann"}`)
	polls := h.waiting(t.Context(), 1, "GET "+ann.MessagesURL+"?wait=1m")
	for _, call := range []string{
		`POST /v1/channels/ticket.ann/messages {"id":"assignment-m","content":{"ticketId":"ann","matchId":"m"}}`,
		`POST /v1/channels/ticket%2Eann/messages {"content":1}`,
		`POST /v1/channels/ticket.nobody/messages {"content":1}`,
		`PUT /v1/channels/ticket.ann/messages/assignment-m {"ticketId":"ann","matchId":"m"}`,
		`PUT /v1/channels/ticket.ann/subscribers/player {"from":"earliest"}`,
		`DELETE /v1/channels/ticket.ann/subscribers/player`,
		`POST /v1/channels/cache:author/messages {"content":1}`,
		`PUT /v1/channels/cache%3Aauthor/subscribers/ann`,
		`GET /v1/channels/cache:author/subscribers/node.1/messages`,
		`POST /v1/channels/cache:author/subscribers/node.1/next {}`,
		`POST /v1/channels/cache:author/subscribers/node.1/ack {"receiptHandle":"` + strings.Repeat("A", 64) + `"}`,
		`POST /v1/fetch {"from":[{"channel":"lobby","subscriber":"ann"},{"channel":"cache:author","subscriber":"node.1"}]}`,
	} {
		method, path, body := cut(call)
		require.Equal(t, "channel", h.do(method, path, body).problem(403, fault.SlugReserved).Field, call)
	}
	for _, call := range []string{
		`PUT /channel/ticket.ann/message/assignment-m {"ticketId":"ann","matchId":"m"}`,
		`PUT /channel/ticket.ann/subscription/polling/player`,
		`DELETE /channel/ticket.ann/subscription/polling/player`,
		`GET /channel/cache:author/subscription/polling/node.1`,
		`DELETE /channel/cache:author/subscription/polling/node.1/message?ackHandle=x`,
	} {
		method, path, body := cut(call)
		h.do(method, path, body).oldError(403, "")
	}
	h.do("GET", "/v1/channels/ticket.nobody", "").problem(404, fault.SlugNoChannel)
	h.create(`{"queue":"duel","id":"bob"}`)
	require.Len(t, decode[wire.Delivery](<-polls).Messages, 1, "the assignment alone")

	// Reading of tickets is open: describe, fetch, next and ack.
	require.Equal(t, http.StatusOK, h.do("GET", ann.ChannelURL, "").status)
	next := strings.TrimSuffix(ann.MessagesURL, "messages") + "next"
	handle := decode[wire.Delivery](h.do("POST", next, `{}`)).ReceiptHandle
	h.do("POST", strings.TrimSuffix(next, "next")+"ack", `{"receiptHandle":"`+handle+`"}`).is(204, "")
	require.Equal(t, http.StatusOK, h.do("GET", "/channel/ticket.bob/subscription/polling/player", "").status)
}

func TestWithoutMatchmaking(t *testing.T) {
	t.Parallel()
	h := start(t)
	for _, call := range []string{"POST /v1/tickets", "GET /v1/tickets/t", "GET /v1/queues"} {
		// the contract is that of a service with it
		got := h.raw(call + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}")
		got.problem(404, fault.SlugNoPath)
	}
	h.subscribe("ticket.t", "player")
	require.Empty(t, h.fetch("ticket.t", "player").Messages)
	require.Zero(t, decode[wire.Info](h.do("GET", "/v1/info", "")).Queues)
}

// definition has every key of a queue's definition.
const definition = `{
	"match": {"function": "criteria", "teams": 2, "teamSize": 3, "acceptance": "one-sided", "weights": {"skill": 0.75},
		"widen": [{"after": "5s", "by": {"skill": 100}}], "url": "", "timeout": "1s", "fetchLimit": 8, "debounce": "1ms"},
	"profile": {"name": "p", "pools": [{"name": "all",
		"doubleRangeFilters": [{"doubleArg": "level", "min": 1, "max": 2, "exclude": "MAX"}],
		"stringEqualsFilters": [{"stringArg": "map", "value": "harbor"}], "tagPresentFilters": [{"tag": "eu"}],
		"createdBefore": "2030-01-01T00:00:00Z", "createdAfter": "2020-01-01T00:00:00Z"}]},
	"evaluator": {"kind": "http", "url": "http://127.0.0.1:1/", "timeout": "2s"},
	"assigner": {"kind": "agones", "connection": "", "url": "http://127.0.0.1:1/", "secret": "", "secretFile": "", "timeout": "3s",
		"namespace": "games", "selector": {"fleet": "duel"}, "tokenFile": ""},
	"ticketTTL": "1m0s", "pendingTimeout": "10s", "assignmentTTL": "20s", "heartbeat": "1s", "reveal": "opponents",
	"maxTickets": 7, "maxTicketBytes": 99}`

// TestQueues calls every route of queues for each of its answers. No answer has a secret.
func TestQueues(t *testing.T) {
	t.Parallel()
	public := start(t, withQueues())
	public.do("PUT", "/v1/queues/q", definition).problem(405, fault.SlugMethod)
	h := public.onAdmin()
	h.play(
		step{"PUT /v1/queues/q " + definition, 201, `{"queue":"q","definition":` + definition + `}`},
		step{"PUT /v1/queues/q " + definition, 200, `{"queue":"q","definition":` + definition + `}`},
		step{"DELETE /v1/queues/q", 204, ""},
		step{"DELETE /v1/queues/q", 204, ""},
		step{"GET /v1/queues/q", 404, "queue-not-found"},
	)
	const secrets = `{"assigner":{"kind":"webhook","url":"http://user:pass@127.0.0.1:1/x?token=abc123","secret":"hush"}}`
	require.Equal(t, 201, h.do("PUT", "/v1/queues/trio", secrets).status)
	for _, path := range []string{"/v1/queues", "/v1/queues/trio", "/v1/queues/duel"} {
		got := h.do("GET", path, "")
		for _, secret := range []string{"hush", "pass", "abc123"} {
			require.NotContains(t, string(got.body), secret)
		}
	}
	copied := h.do("PUT", "/v1/queues/copy", string(decode[wire.Queue](h.do("GET", "/v1/queues/trio", "")).Definition))
	require.Equal(t, "/assigner/url", copied.problem(400, fault.SlugInvalidQueue).Field, "a redacted secret isn't one")
	var names []string
	for _, q := range decode[wire.Queues](h.do("GET", "/v1/queues", "")).Queues {
		names = append(names, q.Name)
	}
	require.Equal(t, []string{"default", "duel", "trio"}, names)
	require.Equal(t, 3, decode[wire.Info](h.do("GET", "/v1/info", "")).Queues)
}

func TestDescribeQueue(t *testing.T) {
	t.Parallel()
	h := start(t, withQueues())
	describe := func() wire.QueueDescription {
		return decode[wire.QueueDescription](h.do("GET", "/v1/queues/duel",
			""))
	}
	d := describe()
	require.Equal(t, wire.QueueDescription{Queue: d.Queue, Configured: true}, d)
	require.False(t, decode[wire.QueueDescription](h.do("GET", "/v1/queues/default", "")).Configured)

	h.create(`{"queue":"duel","id":"ann"}`)
	h.do("DELETE", "/v1/tickets/ann", "")
	h.create(`{"queue":"duel","id":"bob"}`)
	require.Eventually(t, func() bool { return describe().OldestWaitMillis > 0 }, servertest.Patience, servertest.Step)
	require.Equal(t, 1, describe().Tickets.Searching+describe().Tickets.Pending)
	waiting := decode[wire.QueueDescription](h.do("GET", "/v1/queues/duel?waiting=true", "")).Waiting
	require.Equal(t, []any{1, 1, []wire.WaitingByRange{}}, []any{waiting.Tickets, waiting.Examined, waiting.Statistics})
	require.Equal(t, []wire.LongWaitingTicket{
		{ID: "bob", WaitMillis: waiting.Waits.Max, Players: 1, Acceptance: &wire.Acceptance{}},
	}, waiting.Longest)
	require.Nil(t, decode[wire.QueueDescription](h.do("GET", "/v1/queues/duel?waiting=false", "")).Waiting)
	h.do("GET", "/v1/queues/duel?waiting=1", "").problem(400, fault.SlugInvalidQuery)
	h.assignment(h.create(`{"queue":"duel","id":"carl"}`))
	require.Eventually(t, func() bool { return describe().Outgoing == 0 }, servertest.Patience, servertest.Step)
	d = describe()
	require.Equal(t, wire.TicketCounts{MatchFound: 2, Cancelled: 1}, d.Tickets)
	require.Zero(t, d.OldestWaitMillis)
	require.Positive(t, d.MatchRate)
	require.GreaterOrEqual(t, d.Waits.P99, d.Waits.P50)
	require.Zero(t, d.Conflicts)
}
