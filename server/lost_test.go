package server_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/wire"
	"github.com/tidemark-dev/tidemark/test/servertest"
)

// newLost returns a service whose Redis has lost the last of three messages, with their acknowledgement, and has
// another one in its place. It returns the receipt for all three.
func newLost(t *testing.T) (h *servertest.Harness, last string) {
	t.Helper()
	h = servertest.Start(t)
	h.Subscribe("c", "s")
	for _, id := range []string{"m1", "m2", "m3"} {
		h.Publish("c", id, `"abc"`)
	}
	last = servertest.Decode[client.Delivery](h.Do("GET", servertest.At+"/messages", "").With(http.StatusOK)).ReceiptHandle
	h.Do("POST", servertest.At+"/ack", `{"receiptHandle":"`+last+`"}`).With(http.StatusNoContent)
	key := h.Prefix + "c.{c}."
	h.Redis.Do(t, "SET", key+"clock", "2", "KEEPTTL")
	h.Redis.Do(t, "SET", key+"r.s", "2", "KEEPTTL")
	h.Redis.Do(t, "DEL", key+"m.3", key+"mid.m3")
	h.Publish("c", "z", `"abc"`)
	return h, last
}

// TestClientsThatReturnAreToldOfALoss: each way of reading tells a client that comes back with its last receipt, once,
// and all messages come.
func TestClientsThatReturnAreToldOfALoss(t *testing.T) {
	t.Parallel()
	h, last := newLost(t)
	expectLost := func(d client.Delivery) {
		t.Helper()
		require.True(t, d.Lost)
		require.Len(t, d.Messages, 1)
		require.Equal(t, "z", d.Messages[0].ID)
	}
	fetch := func(method, path, body string) client.Delivery {
		return servertest.Decode[client.Delivery](h.Do(method, servertest.At+path, body).With(http.StatusOK))
	}
	for _, wait := range []string{"", "&wait=20s"} {
		d := fetch("GET", "/messages?lastReceiptHandle="+last+wait, "")
		expectLost(d)
		require.False(t, fetch("GET", "/messages?lastReceiptHandle="+d.ReceiptHandle+wait, "").Lost, "reported once")
	}
	expectLost(fetch("POST", "/next", `{"lastReceiptHandle":"`+last+`"}`))
	many := h.Do("POST", "/v1/fetch", `{"from":[{"channel":"c","subscriber":"s","lastReceiptHandle":"`+last+`"}]}`)
	expectLost(servertest.Decode[servertest.Deliveries](many.With(http.StatusOK)).Deliveries[0].Delivery)
	h.Do("POST", servertest.At+"/next", `{"receiptHandle":"`+last+`"}`).Problem(http.StatusConflict,
		fault.SlugReceiptSuperseded)

	for _, ack := range []string{"manual", "resume"} {
		s := openEvents(t, h, streamOfS+"?ack="+ack+"&lastEventId="+last)
		require.Contains(t, s.next().data, `"reason":"lost"`)
		require.Equal(t, "z", s.message().ID)
	}
	for _, member := range []string{"resume", "lastReceiptHandle"} {
		s := h.Dial()
		s.Request(`{"type":"subscribe","ref":1,"channel":"c","subscriber":"s","`+member+`":"`+last+`"}`, wire.FrameOK)
		require.Equal(t, "lost", s.Expect(wire.FrameGap).Reason)
		require.Equal(t, "z", s.Expect(wire.FrameMessage).ID)
	}
	s := h.Dial()
	require.Equal(t, "/lastReceiptHandle", s.Request(`{"type":"subscribe","ref":1,"channel":"c","subscriber":"s","resume":"`+last+
		`","lastReceiptHandle":"`+last+`"}`, wire.FrameError).Problem.Field)
	require.True(t, fetch("GET", "/messages?lastReceiptHandle=x", "").Lost)
	h.Subscribe("c", "other")
	h.Do("GET", "/v1/channels/c/subscribers/other/messages?lastReceiptHandle="+last, "").Problem(http.StatusBadRequest,
		fault.SlugReceiptSubscriber)
}

// TestConsumersReportALoss: the Go client's consumers report it when a stream or a poll finds it, and go on.
func TestConsumersReportALoss(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]client.Option{"streams": nil, "polls": {client.WithoutStreams()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, last := newLost(t)
			h.Subscribe("other", "s")
			c, err := client.New(h.URL, options...)
			require.NoError(t, err)
			from := client.Source{Channel: "c", Subscriber: "s", LastReceiptHandle: last}
			for _, more := range [][]client.Source{nil, {{Channel: "other", Subscriber: "s"}}} {
				var seen []string
				require.NoError(t, c.ConsumeMany(t.Context(), client.ManyConsumer{From: append(more, from),
					Handle: func(_ context.Context, _ client.Source, m client.Message) error {
						seen = append(seen, m.ID)
						return client.ErrStop
					},
					Gap: func(of client.Source, gap client.Gap) { seen = append(seen, of.Channel+" "+gap.Reason) },
				}))
				require.Equal(t, []string{"c lost", "z"}, seen)
				h.Redis.Do(t, "SET", h.Prefix+"c.{c}.r.s", "2", "KEEPTTL")
			}
		})
	}
}

// TestLastReceiptAcknowledgesNothing: it is only compared, also when a stream of the Go client begins with it.
func TestLastReceiptAcknowledgesNothing(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	h.Subscribe("c", "s")
	h.Publish("c", "m1", `"abc"`)
	last := servertest.Decode[client.Delivery](h.Do("GET", servertest.At+"/messages", "").With(http.StatusOK)).ReceiptHandle
	c, err := client.New(h.URL)
	require.NoError(t, err)
	from := []client.Source{{Channel: "c", Subscriber: "s", LastReceiptHandle: last}}
	for range 2 {
		for a, err := range c.Stream(t.Context(), from, client.StreamOptions{}) {
			require.NoError(t, err)
			require.Equal(t, "m1", a.Message.ID)
			break
		}
		d, err := c.FetchMany(t.Context(), from, client.FetchOptions{})
		require.NoError(t, err)
		require.Len(t, d.Found[0].Messages, 1)
	}
}
