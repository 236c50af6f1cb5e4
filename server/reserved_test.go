package server_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/wire"
)

// Assignments can't be forged: nothing from outside writes to a ticket's channel.
func TestChannelsOfTicketsAreReserved(t *testing.T) {
	t.Parallel()
	h := start(t, withQueues())
	ann := h.create(`{"queue":"duel","id":"ann"}`)
	polls := h.waiting(t.Context(), 1, "GET", ann.MessagesURL+"?wait=1m", "")
	for _, call := range []string{
		`POST /v1/channels/ticket.ann/messages {"id":"assignment-m","content":{"ticketId":"ann","matchId":"m"}}`,
		`POST /v1/channels/ticket.ann/messages [{"content":1},{"content":2}]`,
		`POST /v1/channels/ticket%2Eann/messages {"content":1}`,
		`POST /v1/channels/ticket.nobody/messages {"content":1}`,
		`PUT /v1/channels/ticket.ann/messages/assignment-m {"ticketId":"ann","matchId":"m"}`,
		`PUT /v1/channels/ticket.ann/subscribers/player {"from":"earliest"}`,
		`PUT /v1/channels/ticket.ann/subscribers/other`,
		`DELETE /v1/channels/ticket.ann/subscribers/player`,
	} {
		method, rest, _ := strings.Cut(call, " ")
		path, body, _ := strings.Cut(rest, " ")
		got := h.do(method, path, body)
		require.Equal(t, "channel", got.problem(403, fault.SlugReserved).Field, call)
	}
	for _, call := range []string{
		`PUT /channel/ticket.ann/message/assignment-m {"ticketId":"ann","matchId":"m"}`,
		`PUT /channel/ticket.ann/subscription/polling/player`,
		`DELETE /channel/ticket.ann/subscription/polling/player`,
	} {
		method, rest, _ := strings.Cut(call, " ")
		path, body, _ := strings.Cut(rest, " ")
		h.do(method, path, body).oldError(403, "")
	}
	h.do("GET", "/v1/channels/ticket.nobody", "").problem(404, fault.SlugNoChannel)

	bob := h.create(`{"queue":"duel","id":"bob"}`)
	require.Len(t, decode[wire.Delivery](<-polls).Messages, 1, "the poll went on, and got the assignment alone")
	require.Equal(t, h.assignment(ann).MatchID, h.assignment(bob).MatchID)

	// Reading is open: describe, fetch, next and ack.
	require.Equal(t, http.StatusOK, h.do("GET", ann.ChannelURL, "").status)
	next := strings.TrimSuffix(ann.MessagesURL, "messages") + "next"
	receipt := decode[wire.Delivery](h.do("POST", next, `{}`)).ReceiptHandle
	h.do("POST", strings.TrimSuffix(next, "next")+"ack", `{"receiptHandle":"`+receipt+`"}`).is(204, "")
	h.do("GET", "/channel/ticket.bob/subscription/polling/player", "")
}
