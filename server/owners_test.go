package server_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/access"
	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/wire"
)

// ownersOf are the owners of the tickets of a harness, which is made after its guard.
type ownersOf struct{ *harness }

func (o *ownersOf) Owner(ctx context.Context, id string) (string, time.Time, error) {
	return o.matches.Owner(ctx, id)
}

// startForPlayers starts a service for the users ann and ben and the API key back, with tickets in the queues duel and
// waits.
func startForPlayers(t testing.TB) *harness {
	t.Helper()
	p := &people{known: map[string]*access.Principal{}, revoked: map[string]bool{}}
	owners := &ownersOf{}
	tokens := access.NewTicketTokens(access.TicketTokenOptions{Keys: newKeyring(t), TTL: time.Hour,
		Unique: func(id string) bool {
			_, ok := matchmaking.QueueOf(id)
			return ok
		}})
	guard, err := access.New(access.Options{Authenticators: []access.Authenticator{tokens, p},
		Tickets: access.Tickets{Owners: owners, Channels: matchmaking.ChannelPrefix,
			Subscriber: matchmaking.Subscriber},
		Revoked: p})
	require.NoError(t, err)
	owners.harness = start(t, withQueues("waits", `{"match":{"teams":9},"assignmentTTL":"300ms"}`, "other", `{}`),
		func(s *setup) {
			s.Guard, s.token = guard, tokens.Offer
		})
	const grants = `[{"actions":["ticket"],"queues":["duel","waits"]}]`
	p.add(t, "back", grants)
	p.add(t, "viewer", `[{"actions":["queue"],"queues":["duel"]}]`)
	for _, user := range []string{"ann", "ben"} {
		p.add(t, user, grants)
		p.known[user].Kind, p.known[user].Subject = access.User, user
	}
	return owners.harness
}

// callsAbout are the calls about a ticket. Their last one cancels it.
func callsAbout(id string) []string {
	at := "/v1/channels/ticket." + id
	return []string{
		"GET /v1/tickets/" + id, "HEAD /v1/tickets/" + id, "GET " + at, "GET " + at + "/subscribers/player/messages",
		"GET /channel/ticket." + id + "/subscription/polling/player", "DELETE /v1/tickets/" + id,
	}
}

// forbids checks that a credential is refused by each call.
func (h *harness) forbids(credential string, calls ...string) {
	h.t.Helper()
	for _, call := range calls {
		method, path, body := cut(call)
		require.Equal(h.t, 403, h.do(method, path, body, bearer(credential)).status, "%s: %s", credential, call)
	}
}

// serves checks that each call succeeds.
func (h *harness) serves(credential string, calls ...string) {
	h.t.Helper()
	for _, call := range calls {
		method, path, body := cut(call)
		got := h.do(method, path, body, bearer(credential))
		require.Contains(h.t, []int{200, 204}, got.status, "%s: %s: %s", credential, call, got.body)
	}
}

func (h *harness) createdBy(credential, body string) wire.CreatedTicket {
	h.t.Helper()
	got := h.do("POST", "/v1/tickets", body, bearer(credential))
	require.Equal(h.t, 201, got.status, "%s", got.body)
	return decode[wire.CreatedTicket](got)
}

// TestPlayersReachTheirOwnTickets and nothing else, by whatever spelling of whatever path.
func TestPlayersReachTheirOwnTickets(t *testing.T) {
	t.Parallel()
	h := startForPlayers(t)
	for _, body := range []string{`{"queue":"waits","id":"Ann-1"}`, `{"queue":"waits"}`} {
		made := h.createdBy("ann", body)
		require.Empty(t, made.Token)
		h.forbids("ben", callsAbout(made.ID)...)
		h.forbids("ben", callsAbout("none")...)
		h.forbids("ann", callsAbout("none")...)
		h.forbids("ann", callsAbout(matchmaking.NewID("waits"))...)
		h.forbids("ann", "GET /v1/channels/ticket."+made.ID+"/subscribers/ann/messages", "GET /v1/channels/Ticket."+
			made.ID,
			`PUT /v1/channels/ticket.`+made.ID+`/subscribers/player`, `POST /v1/channels/ticket.`+made.ID+
				`/messages {"content":1}`)
		h.serves("ann", callsAbout(made.ID)...)
	}
	h.createdBy("ann", `{"queue":"waits","id":"Ann-2"}`)
	for _, spelt := range []string{"ann-2", "%41nn-2", "Ann%2D2", "Ann-2%00", "Ann-2."} {
		h.forbids("ben", "GET /v1/tickets/"+spelt, "DELETE /v1/tickets/"+spelt, "GET /v1/channels/ticket%2E"+spelt,
			"GET /v1/channels/%74icket."+spelt)
	}
	h.serves("ann", "GET /v1/tickets/%41nn%2d2", "GET /v1/channels/%74icket%2EAnn-2/subscribers/%70layer/messages")
	for _, queue := range []string{"waits", "duel"} {
		body := `{"queue":"` + queue + `","id":"Ann-2"}`
		h.do("POST", "/v1/tickets", body, bearer("ben")).problem(409, fault.SlugTicketExists)
		h.do("POST", "/v1/tickets", body, bearer("back")).problem(409, fault.SlugTicketExists)
	}
	h.serves("ann", `POST /v1/tickets {"queue":"waits","id":"Ann-2"}`)
	for _, queue := range []string{"other", "Duel", "none"} {
		h.forbids("ann", `POST /v1/tickets {"queue":"`+queue+`"}`)
	}
	h.forbids("ann", `POST /v1/tickets {}`, "GET /v1/queues", "GET /v1/queues/duel",
		"GET /v1/matches/"+matchmaking.NewID("duel"))
}

// TestTokensOfPlayers: a back end passes on the token of a ticket, which reaches that ticket in that life only.
func TestTokensOfPlayers(t *testing.T) {
	t.Parallel()
	h := startForPlayers(t)
	mine, other := h.createdBy("back", `{"queue":"waits"}`), h.createdBy("back", `{"queue":"waits"}`)
	require.NotEqual(t, mine.Token, other.Token)
	h.forbids(mine.Token, callsAbout(other.ID)...)
	h.forbids(mine.Token, callsAbout(h.createdBy("ann", `{"queue":"waits"}`).ID)...)
	h.forbids(mine.Token, `POST /v1/tickets {"queue":"waits"}`, `POST /v1/tickets {"queue":"waits","id":"x"}`,
		"GET /v1/queues", "GET /v1/queues/waits",
		"GET /v1/channels/c", `POST /v1/channels/c/messages {"content":1}`,
		"GET /v1/channels/c/subscribers/player/messages")
	require.NotContains(t, string(h.do("GET", "/v1/tickets/"+mine.ID, "", bearer(mine.Token)).body), "token")
	h.serves(mine.Token, callsAbout(mine.ID)...)

	first := h.createdBy("back", `{"queue":"waits","id":"named"}`)
	h.serves(first.Token, callsAbout("named")...)
	require.Eventually(t, func() bool {
		return h.do("GET", "/v1/tickets/named", "", bearer("back")).status == 404
	}, time.Minute, 10*time.Millisecond)
	h.forbids(first.Token, callsAbout("named")...)
	second := h.createdBy("back", `{"queue":"waits","id":"named"}`)
	h.forbids(first.Token, callsAbout("named")...)
	h.serves(second.Token, callsAbout("named")...)
	require.NotContains(t, h.logs.Text(t), first.Token)
}

// TestClientOfAPlayer: the Go client with the token of a ticket awaits its assignment, and can do nothing else.
func TestClientOfAPlayer(t *testing.T) {
	t.Parallel()
	h := startForPlayers(t)
	as := func(token string) *client.Client {
		c, err := client.New(h.url, client.WithToken(token))
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

// TestMatchesAreForQueues: a player gets what the queue reveals to it, in its assignment, and not the whole match.
func TestMatchesAreForQueues(t *testing.T) {
	t.Parallel()
	h := startForPlayers(t)
	mine, hers := h.createdBy("back", `{"queue":"duel"}`), h.createdBy("ann", `{"queue":"duel"}`)
	got := h.do("GET", mine.MessagesURL+"?wait=1m", "", bearer(mine.Token))
	require.Equal(t, 200, got.status)
	h.serves("ann", "GET "+hers.MessagesURL+"?wait=1m")
	match := "/v1/matches/" + h.matchOf(mine)
	h.forbids("ann", "GET "+match)
	h.forbids(mine.Token, "GET "+match)
	h.forbids("back", "GET "+match)
	h.serves("viewer", "GET "+match, "GET "+match+"?queue=duel")
	h.forbids("viewer", "GET "+match+"?queue=waits", "GET /v1/matches/final-3?queue=waits",
		"GET /v1/matches/"+matchmaking.NewID("waits"))
	for path, status := range map[string]int{
		"/v1/matches/" + matchmaking.NewID("duel"): 404, "/v1/matches/" + matchmaking.NewID("waits") +
			"?queue=duel": 404,
		match + "?queue=duel&queue=waits": 400, "/v1/matches/final-3": 400,
	} {
		require.Equal(t, status, h.do("GET", path, "", bearer("viewer")).status, path)
	}
}

// TestPollOfAnEarlierLife: a poll that waits while the ticket's ID becomes somebody else's doesn't get what that one is
// told.
func TestPollOfAnEarlierLife(t *testing.T) {
	t.Parallel()
	h := startForPlayers(t)
	early := h.createdBy("ann", `{"queue":"duel","id":"squat"}`)
	h.createdBy("back", `{"queue":"duel"}`)
	poll := "GET " + early.MessagesURL
	got := h.do("GET", early.MessagesURL+"?wait=1m", "", bearer("ann"))
	require.Equal(t, 200, got.status)
	receipt := decode[wire.Delivery](got).ReceiptHandle
	h.serves("ann", "POST /v1/channels/ticket.squat/subscribers/player/ack {\"receiptHandle\":\""+receipt+"\"}", poll)
	h.as("ann")
	answers := h.waiting(t.Context(), 1, poll+"?wait=1m")
	require.NoError(t, h.matches.Delete(t.Context(), "squat"))
	h.createdBy("ben", `{"queue":"duel","id":"squat"}`)
	h.createdBy("back", `{"queue":"duel"}`)
	require.Equal(t, 403, (<-answers).status)
	h.serves("ben", poll+"?wait=1m")
}

func (h *harness) matchOf(c wire.CreatedTicket) string {
	h.t.Helper()
	got := h.do("GET", "/v1/tickets/"+c.ID, "", bearer("back"))
	require.Equal(h.t, 200, got.status)
	return decode[wire.Ticket](got).MatchID
}
