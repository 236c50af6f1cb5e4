package server_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/test/servertest"
)

// closing publishes the last message of a channel.
func closing(t *testing.T, h *servertest.Harness, channel, id string) {
	t.Helper()
	s := h.Dial()
	s.Request(fmt.Sprintf(`{"type":"publish","ref":1,"channel":%q,"id":%q,"content":1,"close":true}`, channel, id), "published")
	require.NoError(t, s.Conn.CloseNow())
}

// The answers of fetches, and the description, have the end of a channel. A waiting fetch doesn't wait for more.
func TestFetchesOfAClosedChannel(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	h.Subscribe("c", "s")
	h.Subscribe("open", "s")
	h.Subscribe("waits", "s")
	h.Publish("c", "a", "1")
	require.NotContains(t, string(h.Do("GET", "/v1/channels/c", "").Body), "closed")
	waits := h.Waiting(t.Context(), 1, "GET /v1/channels/waits/subscribers/s/messages?wait=1m")
	closing(t, h, "waits", "last")
	last := servertest.Decode[client.Delivery](<-waits) // with the message's notification, which precedes that of the end
	require.Equal(t, "last", last.Messages[0].ID)
	require.Equal(t, client.Delivery{Messages: []client.Message{}, Closed: true}, servertest.Decode[client.Delivery](
		h.Do("POST", "/v1/channels/waits/subscribers/s/next", `{"receiptHandle":"`+last.ReceiptHandle+`","wait":"1m"}`)))
	closing(t, h, "c", "b")
	require.False(t, servertest.Decode[client.Delivery](h.Do("GET", servertest.At+"/messages?max=1", "")).Closed)
	all := h.Fetch("c", "s")
	require.Len(t, all.Messages, 2)
	require.True(t, all.Closed)
	rest := servertest.Decode[client.Delivery](h.Do("POST", servertest.At+"/next",
		`{"receiptHandle":"`+all.ReceiptHandle+`","wait":"1m"}`))
	require.Equal(t, client.Delivery{Messages: []client.Message{}, Closed: true}, rest)
	many := h.Do("POST", "/v1/fetch", `{"from":[{"channel":"open","subscriber":"s"},{"channel":"c","subscriber":"s"}]}`)
	require.JSONEq(t, `{"deliveries":[{"channel":"c","subscriber":"s","messages":[],"more":false,"expired":0,
		"closed":true}],"problems":[]}`, string(many.Body))
	require.Contains(t, string(h.Do("GET", "/v1/channels/c", "").Body), `"closed":true`)
	got := h.Do("PUT", "/v1/channels/c/messages/x", "1")
	require.Equal(t, http.StatusConflict, got.Status)
	require.Contains(t, string(got.Body), string(fault.SlugChannelClosed))
}

// A stream ends with its channel, and a browser that reconnects with the ID of the end, or of the last message if that
// acknowledges, is told to stop.
func TestStreamOfAClosedChannel(t *testing.T) {
	t.Parallel()
	for _, http2 := range []bool{false, true} {
		h := servertest.Start(t)
		h.Client = servertest.Client(t, http2)
		h.Subscribe("c", "s")
		s, tail := openEvents(t, h, streamOfS+"?ack=resume"), openEvents(t, h, tailOfC)
		s.ping()
		tail.ping()
		closing(t, h, "c", "a")
		answersNothing := func(path, id string) {
			t.Helper()
			got := h.Do("GET", path, "", servertest.Header{Name: "Last-Event-ID", Value: id})
			require.Equal(t, http.StatusNoContent, got.Status, "%s: %s", path, got.Body)
			require.Empty(t, got.Body)
		}
		for _, s := range []*eventSource{tail, s} {
			require.Equal(t, "a", s.message().ID)
			last := s.lastID
			s.ends("closed")
			require.Equal(t, last, s.lastID)
		}
		answersNothing(tailOfC, tail.lastID)
		again := openEvents(t, h, streamOfS, servertest.Header{Name: "Last-Event-ID", Value: s.lastID})
		require.Equal(t, "a", again.message().ID, "nothing is acknowledged")
		again.ends("closed")
		answersNothing(streamOfS+"?ack=resume", s.lastID)
		require.Empty(t, h.Fetch("c", "s").Messages, "the reconnect has acknowledged it")

		closing(t, h, "d", "a") // a channel that nobody has read
		h.Subscribe("d", "s")
		empty := openEvents(t, h, "/v1/channels/d/subscribers/s/stream")
		empty.next() // the end has an ID, though nothing came before it
		require.NotEmpty(t, empty.lastID)
		answersNothing("/v1/channels/d/subscribers/s/stream", empty.lastID)
	}
}

// A stream from many channels has an event for each that is closed, and ends after the last one.
func TestStreamFromManyClosedChannels(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	h.Subscribe("c", "s")
	h.Subscribe("d", "s")
	const path = "/v1/stream?ack=resume&sub=c/s&sub=d/s&tail=e/latest"
	s := openEvents(t, h, path)
	s.ping()
	for _, channel := range []string{"c", "d", "e"} {
		closing(t, h, channel, "a")
		m := s.message()
		require.Equal(t, channel, m.Channel)
		e := s.next()
		require.Equal(t, "closed", e.name)
		require.NotEmpty(t, e.lastID)
		want := `{"channel":"` + channel + `","subscriber":"s","receiptHandle":"` + m.ReceiptHandle + `"}`
		if channel == "e" {
			want = `{"channel":"e"}`
		}
		require.JSONEq(t, want, e.data)
	}
	e := s.next()
	require.Equal(t, []string{"end", `{"reason":"closed"}`}, []string{e.name, e.data})
	got := h.Do("GET", path, "", servertest.Header{Name: "Last-Event-ID", Value: s.lastID})
	require.Equal(t, http.StatusNoContent, got.Status)
	require.Empty(t, h.Fetch("c", "s").Messages)

	h.Subscribe("open", "s")
	mixed := openEvents(t, h, "/v1/stream?sub=c/s&sub=open/s&sub=c/nobody")
	names := []string{mixed.next().name, mixed.next().name}
	require.ElementsMatch(t, []string{"closed", "problem"}, names)
	h.Do("DELETE", "/v1/channels/open/subscribers/s", "").With(http.StatusNoContent)
	require.Equal(t, "problem", mixed.next().name)
	mixed.ends("removed")
}

// A subscription of a socket ends with its channel by a frame. Its messages can still be acknowledged, and it can be
// subscribed again.
func TestSocketOfAClosedChannel(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	h.Subscribe("c", "s")
	s := h.Dial()
	s.Request(subscribeS, "ok")
	s.Request(`{"type":"subscribe","ref":2,"channel":"e","from":"earliest"}`, "ok")
	h.Publish("c", "a", "1")
	require.Equal(t, "a", s.Expect("message").ID)
	closing(t, h, "c", "b")
	b := s.Expect("message")
	require.Equal(t, servertest.Frame{Type: "closed", Channel: "c", Subscriber: "s"}, s.Expect("closed"))
	s.Request(ackS(4, b.ReceiptHandle), "acked")
	require.Equal(t, client.Delivery{Messages: []client.Message{}, Closed: true}, h.Fetch("c", "s"))
	s.Send(subscribeS)
	s.Expect("ok")
	s.Expect("closed")
	s.Send(unsubscribeS)
	require.EqualValues(t, 2, s.Expect("error").Ref, "it has ended")

	closing(t, h, "e", "x")
	require.Equal(t, "x", s.Expect("message").ID)
	require.Equal(t, servertest.Frame{Type: "closed", Channel: "e"}, s.Expect("closed"))
	refused := s.Request(strings.Replace(publishC, `"c"`, `"e"`, 1), "error")
	require.Equal(t, fault.SlugChannelClosed, refused.Problem.Slug())
	require.Equal(t, http.StatusConflict, refused.Problem.Status)
	require.EqualValues(t, 1, *refused.Problem.Clock)
}

// A socket publishes for a producer, each sequence once, and in an order.
func TestSocketPublishesForAProducer(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	s := h.Dial()
	publish := func(epoch, sequence int) string {
		return fmt.Sprintf(`{"type":"publish","ref":1,"channel":"c","producer":{"id":"p","epoch":%d,"sequence":%d},"content":1}`,
			epoch, sequence)
	}
	first := s.Request(publish(0, 0), "published")
	again := s.Request(publish(0, 0), "published")
	require.Equal(t, []any{first.ID, first.Clock, true}, []any{again.ID, again.Clock, again.Duplicate})
	s.Request(publish(0, 1), "published")
	for text, slug := range map[string]fault.Slug{
		publish(0, 3): fault.SlugProducerGap, publish(1, 1): fault.SlugProducerStart,
		`{"type":"publish","ref":1,"channel":"c","producer":{"id":"","epoch":0,"sequence":2},"content":1}`:   fault.SlugInvalidProducer,
		`{"type":"publish","ref":1,"channel":"c","producer":{"id":"p","epoch":-1,"sequence":2},"content":1}`: fault.SlugInvalidProducer,
	} {
		s.SendBad(text)
		p := s.Expect("error").Problem
		require.Equal(t, slug, p.Slug(), text)
		if slug == fault.SlugProducerGap {
			require.EqualValues(t, 2, *p.ExpectedSequence)
		}
	}
	s.Request(publish(1, 0), "published")
	fenced := s.Request(publish(0, 2), "error").Problem
	require.Equal(t, fault.SlugProducerFenced, fenced.Slug())
	require.EqualValues(t, 1, *fenced.ProducerEpoch)
	order := `{"type":"publish","ref":1,"channel":"c","order":"b","content":1}`
	s.Request(order, "published")
	require.Equal(t, fault.SlugOrderConflict, s.Request(order, "error").Problem.Slug())
	require.EqualValues(t, 4, servertest.Decode[client.Description](h.Do("GET", "/v1/channels/c", "")).Clock)
}
