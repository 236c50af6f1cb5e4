package server_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/wire"
	"github.com/tidemark-dev/tidemark/test/servertest"
)

// operated is a service with a subscriber and six messages, and a stream whose window is full after the first two.
type operated struct {
	h, admin *servertest.Harness
	s        *eventSource
}

func newOperated(t *testing.T) operated {
	t.Helper()
	h := servertest.Start(t)
	h.Subscribe("c", "s")
	for i := range 6 {
		h.Publish("c", fmt.Sprint("m", i+1), "1")
	}
	o := operated{h: h, admin: h.OnAdmin(), s: openEvents(t, h, streamOfS+"?window=2")}
	o.gets(1, 2)
	return o
}

// gets expects the messages at these clocks.
func (o operated) gets(clocks ...int) {
	o.s.t.Helper()
	for _, at := range clocks {
		require.EqualValues(o.s.t, at, o.s.message().Clock)
	}
}

func (o operated) gap(reason string, count int) {
	o.s.t.Helper()
	require.JSONEq(o.s.t, fmt.Sprintf(`{"reason":%q,"count":%d}`, reason, count), o.s.next().data)
}

// moved expects the gap of a seek. A stream that has read the mark at the same time sends messages before it.
func (o operated) moved() {
	o.s.t.Helper()
	e := o.s.next()
	for e.name == "message" {
		e = o.s.next()
	}
	require.JSONEq(o.s.t, `{"reason":"moved","count":0}`, e.data)
}

// acks acknowledges everything that has arrived.
func (o operated) acks() {
	o.s.t.Helper()
	o.h.Do("POST", servertest.At+"/ack", `{"receiptHandle":"`+o.s.lastID+`"}`).With(http.StatusNoContent)
}

func (o operated) does(call string) {
	o.s.t.Helper()
	method, path, body := servertest.Cut(call)
	require.Less(o.s.t, o.admin.Do(method, path, body).Status, 300)
}

// TestPurgeWhileAStreamIsFull: it goes on with what is left, and tells of the rest once.
func TestPurgeWhileAStreamIsFull(t *testing.T) {
	t.Parallel()
	o := newOperated(t)
	o.does(`POST /v1/channels/c/purge {"through":5}`)
	o.acks()
	o.gap("purged", 3)
	o.gets(6)
	o.does(`POST /v1/channels/c/purge {"through":"latest"}`)
	o.h.Publish("c", "m7", "1")
	o.gets(7)
	o.acks()
	o.h.Publish("c", "m8", "1")
	o.gets(8)
	o.does(`POST /v1/channels/c/purge {"through":"latest"}`)
	o.acks()
	require.Equal(t, servertest.Nothing, string(o.h.Do("GET", servertest.At+"/messages", "").Body))
	metrics := string(o.admin.Do("GET", "/metrics", "").Body)
	require.Contains(t, metrics, "\ntidemark_messages_purged_total 3\n")
	require.Contains(t, metrics, "\ntidemark_messages_expired_total 0\n")
}

// TestSeekWhileAStreamIsFull: it goes on at the mark at once, in either direction, and its window is empty.
func TestSeekWhileAStreamIsFull(t *testing.T) {
	t.Parallel()
	o := newOperated(t)
	seek := "POST " + servertest.At + "/seek "
	o.does(seek + `{"to":4}`)
	o.moved()
	o.gets(5, 6)
	o.does(seek + `{"to":"earliest"}`)
	o.moved()
	o.gets(1, 2)
	o.acks()
	o.gets(3, 4)
	o.does(seek + `{"to":"latest"}`)
	o.moved()
	require.NotEmpty(t, o.s.lastID, "the gap can be acknowledged")
	o.acks()
	o.h.Publish("c", "m7", "1")
	o.gets(7)
}

// TestSeekWakesAFetch: it returns the messages after the new mark.
func TestSeekWakesAFetch(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	h.Publish("c", "a", "1")
	h.Subscribe("c", "s")
	waiting := h.Waiting(t.Context(), 1, servertest.Waits[0])
	require.Equal(t, 200, h.OnAdmin().Do("POST", servertest.At+"/seek", `{"to":"earliest"}`).Status)
	got := <-waiting
	require.Equal(t, "a", servertest.Decode[client.Delivery](got.With(200)).Messages[0].ID)
}

// TestDeleteWhileOthersWait: fetches and streams of subscribers end, and a tail goes on in the channel's next life.
func TestDeleteWhileOthersWait(t *testing.T) {
	t.Parallel()
	o := newOperated(t)
	tail := openEvents(t, o.h, "/v1/channels/c/stream")
	tail.ping()
	o.h.Subscribe("c", "other")
	waiting := o.h.Waiting(t.Context(), 3, strings.Replace(servertest.Waits[0], "/s/", "/other/", 1))
	o.does("DELETE /v1/channels/c")
	for range 3 {
		(<-waiting).Problem(404, fault.SlugNoSubscriber)
	}
	o.acksFail()
	o.h.Publish("c", "m1", "2")
	require.Contains(t, tail.next().data, `"reason":"lost"`)
	m := tail.message()
	require.Equal(t, "m1", m.ID)
	require.EqualValues(t, 7, m.Clock)
	o.h.Subscribe("c", "s")
	o.acksFail()
}

// acksFail acknowledges a receipt of a life that has ended.
func (o operated) acksFail() {
	o.s.t.Helper()
	status := o.h.Do("POST", servertest.At+"/ack", `{"receiptHandle":"`+o.s.lastID+`"}`).Status
	require.Contains(o.s.t, []int{404, 409}, status)
}

// TestSocketIsToldOfOperators has a subscription of a socket, on a channel with others.
func TestSocketIsToldOfOperators(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	admin := h.OnAdmin()
	h.Subscribe("c", "s")
	for i := range 3 {
		h.Publish("c", fmt.Sprint("m", i+1), "1")
	}
	s := h.Dial()
	s.Request(`{"type":"subscribe","ref":1,"channel":"c","subscriber":"s","window":1}`, wire.FrameOK)
	first := s.Expect(wire.FrameMessage)
	require.Equal(t, 200, admin.Do("POST", "/v1/channels/c/purge", `{"through":"latest"}`).Status)
	s.Request(`{"type":"ack","ref":2,"channel":"c","subscriber":"s","receiptHandle":"`+first.ReceiptHandle+`"}`, wire.FrameAcked)
	gap := s.Expect(wire.FrameGap)
	require.Equal(t, string(channel.GapPurged), gap.Reason)
	require.EqualValues(t, 2, gap.Count)
	require.NotEmpty(t, gap.ReceiptHandle)
	h.Publish("c", "m4", "1")
	require.Equal(t, "m4", s.Expect(wire.FrameMessage).ID)
	require.Equal(t, 200, admin.Do("POST", servertest.At+"/seek", `{"to":"earliest"}`).Status)
	require.Equal(t, string(channel.GapMoved), s.Expect(wire.FrameGap).Reason)
	require.Equal(t, "m4", s.Expect(wire.FrameMessage).ID)
	require.Equal(t, 204, admin.Do("DELETE", "/v1/channels/c", "").Status)
	s.Fails(0, fault.SlugNoSubscriber)
}

// TestConnected shows operators who waits on a channel, by which kind of connection, until it ends.
func TestConnected(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	admin := h.OnAdmin()
	const at = "/v1/channels/c/connected"
	connected := func(query string) client.Connected {
		t.Helper()
		c := servertest.Decode[client.Connected](admin.Do("GET", at+query, ""))
		for i := range c.Subscribers {
			require.WithinDuration(t, time.Now(), c.Subscribers[i].Since, time.Minute)
			c.Subscribers[i].Since = time.Time{}
		}
		return c
	}
	nobody := client.Connected{Channel: "c", Subscribers: []client.ConnectedSubscriber{}}
	require.Equal(t, nobody, connected(""), "of a channel that doesn't exist")
	h.Subscribe("c", "s")
	h.Subscribe("c", "t")
	answers := h.Waiting(t.Context(), 2, "GET "+servertest.At+"/messages?wait=1m")
	socket := h.Dial()
	socket.Request(subscribeS, "ok")
	openEvents(t, h, "/v1/channels/c/stream")
	all, s := client.Connections{Polls: 2, Streams: 1, Sockets: 1}, client.Connections{Polls: 2, Sockets: 1}
	require.Equal(t, client.Connected{Channel: "c", Connections: all, Tails: 1,
		Subscribers: []client.ConnectedSubscriber{{Name: "s", Connections: s}}}, connected("?limit=1"))
	require.Empty(t, connected("?cursor=s").Subscribers)
	h.Publish("c", "a", "1")
	<-answers
	<-answers
	require.Equal(t, client.Connections{Streams: 1, Sockets: 1}, connected("").Connections)
	admin.Do("GET", at+"?limit=1001", "").Problem(400, fault.SlugInvalidQuery)
	admin.Do("GET", "/v1/channels/no%20spaces/connected", "").Problem(400, fault.SlugInvalidChannel)
	h.Do("GET", at, "").Problem(404, fault.SlugNoPath)
}
