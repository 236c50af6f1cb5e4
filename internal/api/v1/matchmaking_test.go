package v1_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/service"
	"github.com/tidemark-dev/tidemark/internal/wire"
	"github.com/tidemark-dev/tidemark/storage/redis/channels"
	"github.com/tidemark-dev/tidemark/test/servertest"
)

// TestTwoPlayers follows two players from their tickets to their assignments, by REST.
func TestTwoPlayers(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t, servertest.WithQueues())
	ann := h.Create(`{"queue":"duel","id":"ann"}`)
	require.Equal(t, client.CreatedTicket{
		ID: "ann", Queue: "duel", Status: string(matchmaking.Searching), CreateTime: ann.CreateTime,
		Channel:    "ticket.ann",
		Subscriber: "player",
		ChannelURL: "/v1/channels/ticket.ann", MessagesURL: "/v1/channels/ticket.ann/subscribers/player/messages",
	}, ann)
	polls := h.Waiting(t.Context(), 1, "GET "+ann.MessagesURL+"?wait=1m")
	bob := h.Create(`{"queue":"duel"}`)
	queue, made := matchmaking.QueueOf(bob.ID)
	require.True(t, made)
	require.Equal(t, "duel", queue)
	require.Len(t, servertest.Decode[client.Delivery](<-polls).Messages, 1)
	forAnn, forBob := h.Assignment(ann), h.Assignment(bob)
	require.Equal(t, matchmaking.Assignment{
		TicketID: "ann", MatchID: forAnn.MatchID, Queue: "duel", Connection: "127.0.0.1:7777",
		Opponents: []string{bob.ID},
	}, forAnn)
	require.Equal(t, forAnn.MatchID, forBob.MatchID)
	require.Equal(t, []int{0, 1}, []int{forAnn.Team, forBob.Team})

	got := h.Ticket("ann")
	require.Equal(t, string(matchmaking.MatchFound), got.Status)
	require.Equal(t, &forAnn, got.Assignment)
	h.Do("DELETE", "/v1/tickets/ann", "").Problem(409, fault.SlugTicketMatched)

	want := client.Match{
		ID: forAnn.MatchID, Queue: "duel", Connection: "127.0.0.1:7777",
		Teams: [][]client.MatchedTicket{{{ID: "ann", Players: 1}}, {{ID: bob.ID, Players: 1}}},
	}
	for _, query := range []string{"", "?queue=duel"} {
		match := servertest.Decode[client.Match](h.Do("GET", "/v1/matches/"+forAnn.MatchID+query, ""))
		require.False(t, match.AssignTime.Before(bob.CreateTime))
		want.AssignTime = match.AssignTime
		require.Equal(t, want, match)
	}
	h.Do("GET", "/v1/matches/"+forAnn.MatchID+"?queue=trio", "").Problem(404, fault.SlugNoMatch)
	h.Do("GET", "/v1/matches/m?queue=duel", "").Problem(404, fault.SlugNoMatch)
	h.Do("GET", "/v1/matches/a%7Bb?queue=duel", "").Problem(404, fault.SlugNoMatch)
	require.Equal(t, "queue", h.Do("GET", "/v1/matches/m", "").Problem(400, fault.SlugInvalidQueue).Field)
	require.Equal(t, "queue", h.Do("GET", "/v1/matches/m?queue=a%7Bb", "").Problem(400, fault.SlugInvalidQueue).Field)
	require.Equal(t, "q", h.Do("GET", "/v1/matches/m?q=duel", "").Problem(400, fault.SlugInvalidQuery).Field)

	again := h.Do("POST", "/v1/tickets", `{"queue":"duel","id":"ann"}`)
	require.Equal(t, http.StatusOK, again.Status)
	require.Empty(t, again.Header.Get("Location"))
	ann.Status = string(matchmaking.MatchFound)
	require.Equal(t, ann, servertest.Decode[client.CreatedTicket](again))
}

// TestTicketsWithoutChannels: answers name no channel, a fetch finds none, and the assignment is in the ticket.
func TestTicketsWithoutChannels(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t, servertest.WithQueues("quiet", `{"channel":false}`))
	var ids []string
	for range 2 {
		made := servertest.Decode[map[string]any](h.Do("POST", "/v1/tickets", `{"queue":"quiet"}`).With(http.StatusCreated))
		for _, member := range []string{"channel", "subscriber", "channelUrl", "messagesUrl"} {
			require.NotContains(t, made, member)
		}
		ids = append(ids, made["id"].(string))
	}
	require.Eventually(t, func() bool { return h.Ticket(ids[1]).Assignment != nil }, servertest.Patience, servertest.Step)
	ann := h.Ticket(ids[0])
	require.Equal(t, ann.MatchID, h.Ticket(ids[1]).MatchID)
	require.Empty(t, ann.Channel)
	at := "/v1/channels/" + matchmaking.ChannelOf(ids[0])
	h.Do("GET", at, "").Problem(404, fault.SlugNoChannel)
	h.Do("GET", at+"/subscribers/player/messages?wait=1m", "").Problem(404, fault.SlugNoSubscriber)

	made, _, err := h.Matches.Create(t.Context(), service.NewTicket{Queue: "duel", NoChannel: true}) // as Open Match's API
	require.NoError(t, err)
	require.Empty(t, h.Ticket(made.ID).Channel)
}

// TestPollsOfTicketsThatAreGone: channels exist, but their tickets don't, as after the storage has lost them. Polls
// that wait end with 404 on each path.
func TestPollsOfTicketsThatAreGone(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t, servertest.WithQueues())
	tickets := []string{matchmaking.NewID("duel"), "chosen", "reserved"}
	var calls []string
	for _, id := range tickets {
		name := matchmaking.ChannelOf(id)
		_, err := h.Service.Subscribe(t.Context(), channel.SubscribeRequest{Channel: name,
			Subscriber: matchmaking.Subscriber})
		require.NoError(t, err)
		at := "/v1/channels/" + name + "/subscribers/player"
		calls = append(calls, "GET "+at+"/messages?wait=1s", "POST "+at+`/next {"wait":1}`,
			"GET /channel/"+name+"/subscription/polling/player?timeout=1s")
	}
	label := channels.KeysOf(h.Prefix, matchmaking.ChannelOf("chosen")).Label()
	require.NoError(t, h.Redis.Do(t, "SET", label, "duel").Error())

	answers, errs := make([]servertest.Answer, len(calls)), make([]error, len(calls))
	var waiting sync.WaitGroup
	for i, call := range calls {
		method, path, body := servertest.Cut(call)
		waiting.Go(func() { answers[i], errs[i] = h.Try(t.Context(), method, path, strings.NewReader(body)) })
	}
	many := servertest.FetchBody("ticket."+tickets[0]+"/player", "ticket.chosen/player", "ticket.reserved/player")
	got := h.Do("POST", "/v1/fetch", strings.Replace(many, "{", `{"wait":1,`, 1))
	require.Equal(t, []string{
		"ticket." + tickets[0] + "/player: 404 subscriber-not-found",
		"ticket.chosen/player: 404 subscriber-not-found", "ticket.reserved/player: 404 subscriber-not-found",
	}, problemsOf(servertest.Decode[servertest.Deliveries](got)))
	waiting.Wait()
	for i, call := range calls {
		require.NoError(t, errs[i])
		if strings.HasPrefix(call, "GET /channel/") {
			answers[i].OldError(404, wire.OldCodeNoSubscriber)
		} else {
			answers[i].Problem(404, fault.SlugNoSubscriber)
		}
	}
}

// TestTickets calls every route of tickets for each of its answers.
func TestTickets(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t, servertest.WithQueues("small", `{"maxTickets":1,"match":{"teams":3}}`, "lively",
		`{"heartbeat":"20s","match":{"teams":3}}`))
	const spec = `"searchFields":{"tags":["eu","<b>"],"doubleArgs":{"level":12.5,"nan":"NaN","max":"Infinity"},"stringArgs":{"map":"harbor"}},` +
		`"criteria":[{"name":"skill","minValue":-1,"maxValue":1500.5}],"statistics":[{"name":"skill","value":1200}],` +
		`"numTeams":3,"teamSize":2,"extensions":{"a":{"b":[1,null]}},"persistentField":{"c":"d"}`
	head := func(id, queue, status string) string {
		return fmt.Sprintf(
			`"id":%q,"queue":%q,"status":%q,"createTime":"*","channel":"ticket.%[1]s","subscriber":"player",`+
				`"channelUrl":"/v1/channels/ticket.%[1]s","messagesUrl":"/v1/channels/ticket.%[1]s/subscribers/player/messages"`, id, queue, status)
	}
	h.Play(
		servertest.Exchange{Call: `POST /v1/tickets {"id":"t",` + spec + `,"ttl":"5m"}`, Status: 201,
			Answer: `{` + head("t", "default", "SEARCHING") + `}`},
		servertest.Exchange{Call: "GET /v1/tickets/t", Status: 200, Answer: `{` + head("t", "default", "SEARCHING") +
			`,"expireTime":"*","ttlMs":"*","lifeMs":300000,` + spec + `}`},
		servertest.Exchange{Call: `POST /v1/tickets {"id":"01ARZ3NDEKTSV4RRFFQ69G5FAV.duel"}`, Status: 400,
			Answer: "invalid-ticket"},
		servertest.Exchange{Call: "GET /v1/tickets/nobody", Status: 404, Answer: "ticket-not-found"},
		servertest.Exchange{Call: "GET /v1/tickets/01ARZ3NDEKTSV4RRFFQ69G5FAV.duel", Status: 404,
			Answer: "ticket-not-found"},
		servertest.Exchange{Call: "DELETE /v1/tickets/t", Status: 204, Answer: ""},
		servertest.Exchange{Call: "DELETE /v1/tickets/t", Status: 204, Answer: ""},
		servertest.Exchange{Call: "DELETE /v1/tickets/nobody", Status: 204, Answer: ""},
		servertest.Exchange{Call: `POST /v1/tickets {"queue":"small","id":"first"}`, Status: 201,
			Answer: `{` + head("first", "small", "SEARCHING") + `}`},
		servertest.Exchange{Call: `POST /v1/tickets {"queue":"small"}`, Status: 503, Answer: "queue-full"},
		servertest.Exchange{Call: `POST /v1/tickets {"queue":"small","id":"first"}`, Status: 200,
			Answer: `{` + head("first", "small", "SEARCHING") + `}`},
		servertest.Exchange{Call: `POST /v1/tickets {"queue":"lively","id":"l","ttl":"5m"}`, Status: 201,
			Answer: `{` + head("l", "lively", "SEARCHING") +
				`}`},
	)
	require.Equal(t, string(matchmaking.Cancelled), h.Ticket("t").Status)
	lively := h.Ticket("l")
	require.EqualValues(t, 20_000, lively.TTLMillis)
	require.EqualValues(t, 300_000, lively.LifeMillis)
	const nanoseconds = `{"queue":"lively","persistentField":{"ttl":{"@type":"type.googleapis.com/google.protobuf.Int64Value","value":"%d"}}}`
	require.EqualValues(t, 30_000, h.Ticket(h.Create(fmt.Sprintf(nanoseconds, 30*time.Second)).ID).LifeMillis)
	h.Do("POST", "/v1/tickets", fmt.Sprintf(nanoseconds, 1)).Problem(400, fault.SlugInvalidTicket)
	require.Equal(t, "/v1/tickets/u", h.Do("POST", "/v1/tickets", `{"id":"u"}`).Header.Get("Location"))

	polls := h.Waiting(t.Context(), 1, "GET /v1/channels/ticket.u/subscribers/player/messages?wait=1m")
	h.Do("DELETE", "/v1/tickets/u", "").Expect(204, "")
	require.Equal(t, 404, (<-polls).Status, "a cancelled ticket's poll ends")

	h.Store.Fail(fault.ErrUnavailable)
	h.Do("POST", "/v1/tickets", `{"queue":"duel","id":"ann"}`).Problem(503, fault.SlugUnavailable)
	h.Store.Fail(nil)
	h.Do("GET", "/v1/tickets/ann", "").Problem(404, fault.SlugNoTicket)
}

// TestHeartbeat: polls of a ticket's channel renew it, and a ticket whose player has left expires.
func TestHeartbeat(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t, servertest.WithQueues("lively", `{"heartbeat":"1s","match":{"teams":3}}`))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	deleted, here := h.Create(`{"queue":"lively","id":"gone"}`), h.Create(`{"queue":"lively","id":"here"}`)
	polls := h.Waiting(ctx, 1, "POST "+strings.TrimSuffix(here.MessagesURL, "messages")+`next {"wait":"1m"}`)
	statusOf := func(id string) matchmaking.Status { // without the heartbeat of a GET
		ticket, err := h.Matches.Ticket(t.Context(), id)
		require.NoError(t, err)
		return ticket.Status
	}
	expires := func(id string) {
		t.Helper()
		require.Eventually(t, func() bool { return statusOf(id) == matchmaking.Expired }, servertest.Patience,
			10*servertest.Step)
	}
	expires(deleted.ID)
	require.Eventually(t, func() bool {
		d, err := h.Matches.Describe(t.Context(), "lively")
		return err == nil && d.OldestWait > 2500*time.Millisecond && statusOf(here.ID) == matchmaking.Searching
	}, servertest.Patience, 10*servertest.Step)
	cancel()
	<-polls
	expires(here.ID)
}

// TestReservedChannels: assignments can't be forged, since clients can't write to a ticket's channel, nor to other
// reserved channels.
func TestReservedChannels(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t, servertest.WithQueues(), func(s *servertest.Setup) { s.Reserved = []string{"cache:"} })
	ann := h.Create(`{"queue":"duel","id":"ann"}`)
	polls := h.Waiting(t.Context(), 1, "GET "+ann.MessagesURL+"?wait=1m")
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
		method, path, body := servertest.Cut(call)
		require.Equal(t, "channel", h.Do(method, path, body).Problem(403, fault.SlugReserved).Field, call)
	}
	for _, call := range []string{
		`PUT /channel/ticket.ann/message/assignment-m {"ticketId":"ann","matchId":"m"}`,
		`PUT /channel/ticket.ann/subscription/polling/player`,
		`DELETE /channel/ticket.ann/subscription/polling/player`,
		`GET /channel/cache:author/subscription/polling/node.1`,
		`DELETE /channel/cache:author/subscription/polling/node.1/message?ackHandle=x`,
	} {
		method, path, body := servertest.Cut(call)
		h.Do(method, path, body).OldError(403, wire.OldCodeInvalidChannel)
	}
	h.Do("GET", "/v1/channels/ticket.nobody", "").Problem(404, fault.SlugNoChannel)
	h.Create(`{"queue":"duel","id":"bob"}`)
	require.Len(t, servertest.Decode[client.Delivery](<-polls).Messages, 1, "the assignment alone")

	// Reading a ticket's channel is permitted: describe, fetch, next and ack.
	require.Equal(t, http.StatusOK, h.Do("GET", ann.ChannelURL, "").Status)
	next := strings.TrimSuffix(ann.MessagesURL, "messages") + "next"
	handle := servertest.Decode[client.Delivery](h.Do("POST", next, `{}`)).ReceiptHandle
	h.Do("POST", strings.TrimSuffix(next, "next")+"ack", `{"receiptHandle":"`+handle+`"}`).Expect(204, "")
	require.Equal(t, http.StatusOK, h.Do("GET", "/channel/ticket.bob/subscription/polling/player", "").Status)
}

func TestWithoutMatchmaking(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	for _, call := range []string{"POST /v1/tickets", "GET /v1/tickets/t", "GET /v1/queues"} {
		// the contract describes a service with this route
		got := h.Raw(call + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}")
		got.Problem(404, fault.SlugNoPath)
	}
	h.Subscribe("ticket.t", "player")
	require.Empty(t, h.Fetch("ticket.t", "player").Messages)
	require.Zero(t, servertest.Decode[client.Info](h.Do("GET", "/v1/info", "")).Queues)
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
	public := servertest.Start(t, servertest.WithQueues())
	public.Do("PUT", "/v1/queues/q", definition).Problem(405, fault.SlugMethod)
	h := public.OnAdmin()
	h.Do("GET", "/v1/queues/q/check", "").Problem(405, fault.SlugMethod)
	h.Play(
		servertest.Exchange{Call: "PUT /v1/queues/q " + definition, Status: 201, Answer: `{"queue":"q","definition":` +
			definition + `}`},
		servertest.Exchange{Call: "PUT /v1/queues/q " + definition, Status: 200, Answer: `{"queue":"q","definition":` +
			definition + `}`},
		servertest.Exchange{Call: "DELETE /v1/queues/q", Status: 204, Answer: ""},
		servertest.Exchange{Call: "DELETE /v1/queues/q", Status: 204, Answer: ""},
		servertest.Exchange{Call: "GET /v1/queues/q", Status: 404, Answer: "queue-not-found"},
	)
	const secrets = `{"assigner":{"kind":"webhook","url":"http://user:pass@127.0.0.1:1/x?token=abc123","secret":"hush"}}`
	require.Equal(t, 201, h.Do("PUT", "/v1/queues/trio", secrets).Status)
	for _, path := range []string{"/v1/queues", "/v1/queues/trio", "/v1/queues/duel"} {
		got := h.Do("GET", path, "")
		for _, secret := range []string{"hush", "pass", "abc123"} {
			require.NotContains(t, string(got.Body), secret)
		}
	}
	copied := h.Do("PUT", "/v1/queues/copy",
		string(servertest.Decode[client.Queue](h.Do("GET", "/v1/queues/trio", "")).Definition))
	require.Equal(t, "/assigner/url", copied.Problem(400, fault.SlugInvalidQueue).Field, "a redacted secret isn't one")
	var names []string
	for _, q := range servertest.Decode[wire.Queues](h.Do("GET", "/v1/queues", "")).Queues {
		names = append(names, q.Name)
	}
	require.Equal(t, []string{"default", "duel", "trio"}, names)
	require.Equal(t, 3, servertest.Decode[client.Info](h.Do("GET", "/v1/info", "")).Queues)
}

func TestDescribeQueue(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t, servertest.WithQueues())
	describe := func() client.QueueDescription {
		return servertest.Decode[client.QueueDescription](h.Do("GET", "/v1/queues/duel",
			""))
	}
	d := describe()
	require.Equal(t, client.QueueDescription{Queue: d.Queue, Configured: true}, d)
	require.False(t, servertest.Decode[client.QueueDescription](h.Do("GET", "/v1/queues/default", "")).Configured)

	h.Create(`{"queue":"duel","id":"ann"}`)
	h.Do("DELETE", "/v1/tickets/ann", "")
	h.Create(`{"queue":"duel","id":"bob"}`)
	require.Eventually(t, func() bool { return describe().OldestWaitMillis > 0 }, servertest.Patience, servertest.Step)
	require.Equal(t, 1, describe().Tickets.Searching+describe().Tickets.Pending)
	waiting := servertest.Decode[client.QueueDescription](h.Do("GET", "/v1/queues/duel?waiting=true", "")).Waiting
	require.Equal(t, []any{1, 1, []client.WaitingByRange{}}, []any{waiting.Tickets, waiting.Examined, waiting.Statistics})
	require.Equal(t, []client.LongWaitingTicket{
		{ID: "bob", WaitMillis: waiting.Waits.Max, Players: 1, Acceptance: &client.Acceptance{}},
	}, waiting.Longest)
	require.Nil(t, servertest.Decode[client.QueueDescription](h.Do("GET", "/v1/queues/duel?waiting=false", "")).Waiting)
	h.Do("GET", "/v1/queues/duel?waiting=1", "").Problem(400, fault.SlugInvalidQuery)
	h.Assignment(h.Create(`{"queue":"duel","id":"carl"}`))
	require.Eventually(t, func() bool { return describe().Outgoing == 0 }, servertest.Patience, servertest.Step)
	d = describe()
	require.Equal(t, client.TicketCounts{MatchFound: 2, Cancelled: 1}, d.Tickets)
	require.Zero(t, d.OldestWaitMillis)
	require.Positive(t, d.MatchRate)
	require.GreaterOrEqual(t, d.Waits.P99, d.Waits.P50)
	require.Zero(t, d.Conflicts)
}
