package server_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/wire"
	"github.com/tidemark-dev/tidemark/test/servertest"
)

// startForPlayers starts a service for the users ann and ben and the API key back, with tickets in the queues duel and
// waits.
func startForPlayers(t testing.TB) *servertest.Harness {
	t.Helper()
	p := &servertest.People{Known: map[string]*access.Principal{}, Ended: map[string]bool{}}
	owners := &servertest.OwnersOf{}
	tokens := access.NewTicketTokens(access.TicketTokenOptions{Keys: servertest.Keyring(t), TTL: time.Hour,
		Unique: func(id string) bool {
			_, ok := matchmaking.QueueOf(id)
			return ok
		}})
	guard, err := access.New(access.Options{Authenticators: []access.Authenticator{tokens, p},
		Tickets: access.Tickets{Owners: owners, Channels: matchmaking.ChannelPrefix,
			Subscriber: matchmaking.Subscriber},
		Revoked: p})
	require.NoError(t, err)
	owners.Harness = servertest.Start(t, servertest.WithQueues("waits", `{"match":{"teams":9},"assignmentTTL":"300ms"}`,
		"other", `{}`),
		func(s *servertest.Setup) {
			s.Guard, s.Token = guard, tokens.Offer
		})
	const grants = `[{"actions":["ticket"],"queues":["duel","waits"]}]`
	p.Add(t, "back", grants)
	p.Add(t, "viewer", `[{"actions":["queue"],"queues":["duel"]}]`)
	for _, user := range []string{"ann", "ben"} {
		p.Add(t, user, grants)
		p.Known[user].Kind, p.Known[user].Subject = access.User, user
	}
	return owners.Harness
}

// callsAbout are the calls about a ticket. Their last one cancels it.
func callsAbout(id string) []string {
	at := "/v1/channels/ticket." + id
	return []string{
		"GET /v1/tickets/" + id, "HEAD /v1/tickets/" + id, "GET " + at, "GET " + at + "/subscribers/player/messages",
		"GET /channel/ticket." + id + "/subscription/polling/player", "DELETE /v1/tickets/" + id,
	}
}

// TestPlayersReachTheirOwnTickets and no others, with any spelling of any path.
func TestPlayersReachTheirOwnTickets(t *testing.T) {
	t.Parallel()
	h := startForPlayers(t)
	for _, body := range []string{`{"queue":"waits","id":"Ann-1"}`, `{"queue":"waits"}`} {
		made := h.CreatedBy("ann", body)
		require.Empty(t, made.Token)
		h.Forbids("ben", callsAbout(made.ID)...)
		h.Forbids("ben", callsAbout("none")...)
		h.Forbids("ann", callsAbout("none")...)
		h.Forbids("ann", callsAbout(matchmaking.NewID("waits"))...)
		h.Forbids("ann", "GET /v1/channels/ticket."+made.ID+"/subscribers/ann/messages", "GET /v1/channels/Ticket."+
			made.ID,
			`PUT /v1/channels/ticket.`+made.ID+`/subscribers/player`, `POST /v1/channels/ticket.`+made.ID+
				`/messages {"content":1}`)
		h.Serves("ann", callsAbout(made.ID)...)
	}
	h.CreatedBy("ann", `{"queue":"waits","id":"Ann-2"}`)
	for _, spelt := range []string{"ann-2", "%41nn-2", "Ann%2D2", "Ann-2%00", "Ann-2."} {
		h.Forbids("ben", "GET /v1/tickets/"+spelt, "DELETE /v1/tickets/"+spelt, "GET /v1/channels/ticket%2E"+spelt,
			"GET /v1/channels/%74icket."+spelt)
	}
	h.Serves("ann", "GET /v1/tickets/%41nn%2d2", "GET /v1/channels/%74icket%2EAnn-2/subscribers/%70layer/messages")
	for _, queue := range []string{"waits", "duel"} {
		body := `{"queue":"` + queue + `","id":"Ann-2"}`
		h.Do("POST", "/v1/tickets", body, servertest.Bearer("ben")).Problem(409, fault.SlugTicketExists)
		h.Do("POST", "/v1/tickets", body, servertest.Bearer("back")).Problem(409, fault.SlugTicketExists)
	}
	h.Serves("ann", `POST /v1/tickets {"queue":"waits","id":"Ann-2"}`)
	for _, queue := range []string{"other", "Duel", "none"} {
		h.Forbids("ann", `POST /v1/tickets {"queue":"`+queue+`"}`)
	}
	h.Forbids("ann", `POST /v1/tickets {}`, "GET /v1/queues", "GET /v1/queues/duel",
		"GET /v1/matches/"+matchmaking.NewID("duel"))
}

// TestTokensOfPlayers: a back end passes on the token of a ticket, which reaches that ticket in that life only.
func TestTokensOfPlayers(t *testing.T) {
	t.Parallel()
	h := startForPlayers(t)
	mine, other := h.CreatedBy("back", `{"queue":"waits"}`), h.CreatedBy("back", `{"queue":"waits"}`)
	require.NotEqual(t, mine.Token, other.Token)
	h.Forbids(mine.Token, callsAbout(other.ID)...)
	h.Forbids(mine.Token, callsAbout(h.CreatedBy("ann", `{"queue":"waits"}`).ID)...)
	h.Forbids(mine.Token, `POST /v1/tickets {"queue":"waits"}`, `POST /v1/tickets {"queue":"waits","id":"x"}`,
		"GET /v1/queues", "GET /v1/queues/waits",
		"GET /v1/channels/c", `POST /v1/channels/c/messages {"content":1}`,
		"GET /v1/channels/c/subscribers/player/messages")
	require.NotContains(t, string(h.Do("GET", "/v1/tickets/"+mine.ID, "", servertest.Bearer(mine.Token)).Body), "token")
	h.Serves(mine.Token, callsAbout(mine.ID)...)

	first := h.CreatedBy("back", `{"queue":"waits","id":"named"}`)
	h.Serves(first.Token, callsAbout("named")...)
	require.Eventually(t, func() bool {
		return h.Do("GET", "/v1/tickets/named", "", servertest.Bearer("back")).Status == 404
	}, time.Minute, 10*time.Millisecond)
	h.Forbids(first.Token, callsAbout("named")...)
	second := h.CreatedBy("back", `{"queue":"waits","id":"named"}`)
	h.Forbids(first.Token, callsAbout("named")...)
	h.Serves(second.Token, callsAbout("named")...)
	require.NotContains(t, h.Logs.Text(t), first.Token)
}

// TestClientOfAPlayer: the Go client with the token of a ticket can await its assignment, and nothing else.
func TestClientOfAPlayer(t *testing.T) {
	t.Parallel()
	h := startForPlayers(t)
	as := func(token string) *client.Client {
		c, err := client.New(h.URL, client.WithToken(token))
		require.NoError(t, err)
		t.Cleanup(c.Close)
		return c
	}
	ctx, backEnd := t.Context(), as("back")
	for range 2 {
		made, err := backEnd.CreateTicket(ctx, client.NewTicket{Queue: "duel"})
		require.NoError(t, err)
		_, err = backEnd.CreateTicket(ctx, client.NewTicket{Queue: "duel"}) // the opponent
		require.NoError(t, err)
		player := as(made.Token)
		assignment, err := player.AwaitAssignment(ctx, made.ID)
		require.NoError(t, err)
		require.Equal(t, made.ID, assignment.TicketID)
		_, err = player.CreateTicket(ctx, client.NewTicket{Queue: "duel"})
		require.ErrorIs(t, err, client.ErrNotGranted)
		_, err = player.Match(ctx, "", assignment.MatchID)
		require.ErrorIs(t, err, client.ErrNotGranted)
	}
}

// TestMatchesAreForQueues: a player can't read the whole match, but only what its assignment reveals.
func TestMatchesAreForQueues(t *testing.T) {
	t.Parallel()
	h := startForPlayers(t)
	mine, hers := h.CreatedBy("back", `{"queue":"duel"}`), h.CreatedBy("ann", `{"queue":"duel"}`)
	got := h.Do("GET", mine.MessagesURL+"?wait=1m", "", servertest.Bearer(mine.Token))
	require.Equal(t, 200, got.Status)
	h.Serves("ann", "GET "+hers.MessagesURL+"?wait=1m")
	match := "/v1/matches/" + matchOf(h, mine)
	h.Forbids("ann", "GET "+match)
	h.Forbids(mine.Token, "GET "+match)
	h.Forbids("back", "GET "+match)
	h.Serves("viewer", "GET "+match, "GET "+match+"?queue=duel")
	h.Forbids("viewer", "GET "+match+"?queue=waits", "GET /v1/matches/final-3?queue=waits",
		"GET /v1/matches/"+matchmaking.NewID("waits"))
	for path, status := range map[string]int{
		"/v1/matches/" + matchmaking.NewID("duel"): 404, "/v1/matches/" + matchmaking.NewID("waits") +
			"?queue=duel": 404,
		match + "?queue=duel&queue=waits": 400, "/v1/matches/final-3": 400,
	} {
		require.Equal(t, status, h.Do("GET", path, "", servertest.Bearer("viewer")).Status, path)
	}
}

// TestPollOfAnEarlierLife: if a ticket's ID passes to another owner during a poll, the poll doesn't return the new
// owner's assignment.
func TestPollOfAnEarlierLife(t *testing.T) {
	t.Parallel()
	h := startForPlayers(t)
	early := h.CreatedBy("ann", `{"queue":"duel","id":"squat"}`)
	h.CreatedBy("back", `{"queue":"duel"}`)
	poll := "GET " + early.MessagesURL
	got := h.Do("GET", early.MessagesURL+"?wait=1m", "", servertest.Bearer("ann"))
	require.Equal(t, 200, got.Status)
	receipt := servertest.Decode[client.Delivery](got).ReceiptHandle
	h.Serves("ann", "POST /v1/channels/ticket.squat/subscribers/player/ack {\"receiptHandle\":\""+receipt+"\"}", poll)
	h.As("ann")
	answers := h.Waiting(t.Context(), 1, poll+"?wait=1m")
	require.NoError(t, h.Matches.Delete(t.Context(), "squat"))
	h.CreatedBy("ben", `{"queue":"duel","id":"squat"}`)
	h.CreatedBy("back", `{"queue":"duel"}`)
	require.Equal(t, 403, (<-answers).Status)
	h.Serves("ben", poll+"?wait=1m")
}

func matchOf(h *servertest.Harness, c client.CreatedTicket) string {
	h.TB.Helper()
	got := h.Do("GET", "/v1/tickets/"+c.ID, "", servertest.Bearer("back"))
	require.Equal(h.TB, 200, got.Status)
	return servertest.Decode[wire.Ticket](got).MatchID
}
