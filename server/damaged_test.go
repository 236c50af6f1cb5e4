package server_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/wire"
	"github.com/tidemark-dev/tidemark/test/servertest"
)

// newDamaged returns a service with a channel c of five messages, of which the second and the last have a wrong byte in
// their contents.
func newDamaged(t *testing.T) *servertest.Harness {
	t.Helper()
	h := servertest.Start(t)
	h.Subscribe("c", "s")
	for i := range 5 {
		h.Publish("c", fmt.Sprint("m", i+1), `"abc"`)
	}
	for _, at := range []string{"2", "5"} {
		h.Redis.Do(t, "SETRANGE", h.Prefix+"c.{c}.m."+at, fmt.Sprint(len(`{"id":"m1","write":"AQIDBAUGBwg","content":"a`)), "\x01")
	}
	return h
}

// TestFetchesSkipDamagedMessages: each kind of fetch has the messages that can be read, counts the others, and has a
// receipt for all.
func TestFetchesSkipDamagedMessages(t *testing.T) {
	t.Parallel()
	h := newDamaged(t)
	fetch := func(method, path, body string) client.Delivery {
		return servertest.Decode[client.Delivery](h.Do(method, servertest.At+path, body).With(http.StatusOK))
	}
	expect := func(d client.Delivery, ids ...string) {
		t.Helper()
		require.Len(t, d.Messages, len(ids))
		for i, m := range d.Messages {
			require.Equal(t, ids[i], m.ID)
		}
		require.EqualValues(t, 2, d.Damaged)
		require.Zero(t, d.Expired)
	}
	expect(fetch("GET", "/messages", ""), "m1", "m3", "m4")
	expect(fetch("GET", "/messages?wait=20s", ""), "m1", "m3", "m4")
	many := h.Do("POST", "/v1/fetch", `{"from":[{"channel":"c","subscriber":"s"}]}`).With(http.StatusOK)
	expect(servertest.Decode[servertest.Deliveries](many).Deliveries[0].Delivery, "m1", "m3", "m4")
	first := fetch("GET", "/messages?max=1", "")
	rest := fetch("POST", "/next", `{"receiptHandle":"`+first.ReceiptHandle+`"}`)
	expect(rest, "m3", "m4")
	h.Do("POST", servertest.At+"/ack", `{"receiptHandle":"`+rest.ReceiptHandle+`"}`).With(http.StatusNoContent)
	require.Equal(t, servertest.Nothing, string(h.Do("GET", servertest.At+"/messages", "").Body))
	require.Contains(t, string(h.OnAdmin().Do("GET", "/metrics", "").Body), "\ntidemark_messages_damaged_total 8\n")
}

// TestStreamsSkipDamagedMessages: they report a gap, and the receipt of the last message covers a damaged one after it.
func TestStreamsSkipDamagedMessages(t *testing.T) {
	t.Parallel()
	h := newDamaged(t)
	for _, path := range []string{streamOfS, "/v1/stream?sub=c/s", tailOfC + "?from=earliest"} {
		s := openEvents(t, h, path)
		gap := s.next()
		require.Equal(t, "gap", gap.name)
		require.Contains(t, gap.data, `"reason":"damaged","count":2`)
		for _, id := range []string{"m1", "m3", "m4"} {
			require.Equal(t, id, s.message().ID)
		}
	}
	s := h.Dial()
	s.Request(`{"type":"subscribe","ref":1,"channel":"c","subscriber":"s"}`, wire.FrameOK)
	gap := s.Expect(wire.FrameGap)
	require.Equal(t, "damaged", gap.Reason)
	require.EqualValues(t, 2, gap.Count)
	last := ""
	for _, id := range []string{"m1", "m3", "m4"} {
		m := s.Expect(wire.FrameMessage)
		require.Equal(t, id, m.ID)
		last = m.ReceiptHandle
	}
	s.Request(`{"type":"ack","ref":2,"channel":"c","subscriber":"s","receiptHandle":"`+last+`"}`, wire.FrameAcked)
	require.Equal(t, servertest.Nothing, string(h.Do("GET", servertest.At+"/messages", "").Body))
	h.Publish("c", "m6", "1")
	require.Equal(t, "m6", s.Expect(wire.FrameMessage).ID)
}

// TestDamagedTickets: a read of one is a problem.
func TestDamagedTickets(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t, servertest.WithQueues("alone", `{"match":{"teams":9}}`))
	h.Do("POST", "/v1/tickets", `{"queue":"alone","id":"a","extensions":{"x":"abc"}}`).With(http.StatusCreated)
	key := h.Prefix + "mm.{alone}.ticket.a"
	text, err := h.Redis.Do(t, "GET", key).ToString()
	require.NoError(t, err)
	require.Contains(t, text, "abc")
	h.Redis.Do(t, "SET", key, strings.Replace(text, "abc", "a\x01c", 1), "KEEPTTL")
	h.Do("GET", "/v1/tickets/a", "").Problem(http.StatusInternalServerError, fault.SlugInternal)
}

// TestMessagesOfAnotherType: a key of a message that has a list is no message, on every way, also as the last one.
func TestMessagesOfAnotherType(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	h.Subscribe("c", "s")
	for _, id := range []string{"m1", "m2", "m3"} {
		h.Publish("c", id, "1")
	}
	replace := func(at string) {
		h.Redis.Do(t, "DEL", h.Prefix+"c.{c}.m."+at)
		h.Redis.Do(t, "RPUSH", h.Prefix+"c.{c}.m."+at, "x")
	}
	replace("1")
	replace("3")
	for _, path := range []string{"/messages", "/messages?max=1", "/messages?wait=20s"} {
		d := servertest.Decode[client.Delivery](h.Do("GET", servertest.At+path, "").With(http.StatusOK))
		require.Equal(t, "m2", d.Messages[0].ID, path)
	}
	many := h.Do("POST", "/v1/fetch", `{"from":[{"channel":"c","subscriber":"s"}]}`).With(http.StatusOK)
	d := servertest.Decode[servertest.Deliveries](many).Deliveries[0]
	require.EqualValues(t, 2, d.Expired)
	for _, path := range []string{streamOfS, "/v1/stream?sub=c/s"} {
		s := openEvents(t, h, path)
		require.Equal(t, "gap", s.next().name)
		require.Equal(t, "m2", s.message().ID)
	}
	h.Do("POST", servertest.At+"/ack", `{"receiptHandle":"`+d.ReceiptHandle+`"}`).With(http.StatusNoContent)
	h.Publish("c", "m4", "1")
	next := h.Do("POST", servertest.At+"/next", `{"receiptHandle":"`+d.ReceiptHandle+`"}`).With(http.StatusOK)
	require.Equal(t, "m4", servertest.Decode[client.Delivery](next).Messages[0].ID)
	h.OnAdmin().Do("POST", servertest.At+"/seek", `{"to":"2026-11-21T12:00:00Z"}`).With(http.StatusOK)
}

// TestDamagedChannels: each way of reading and each write refuses one with the same problem, until it is deleted.
func TestDamagedChannels(t *testing.T) {
	t.Parallel()
	for _, damaged := range []struct {
		key, value string
		writes     bool // publishes too are refused
	}{
		{"clock", "abc", true}, {"clock", "1e3", true}, {"epoch", "abc", true}, {"r.s", "abc", false},
	} {
		t.Run(damaged.key+" "+damaged.value, func(t *testing.T) {
			t.Parallel()
			h := servertest.Start(t)
			h.Subscribe("c", "s")
			h.Publish("c", "m1", "1")
			receipt := h.Fetch("c", "s").ReceiptHandle
			h.Redis.Do(t, "SET", h.Prefix+"c.{c}."+damaged.key, damaged.value, "KEEPTTL")
			refused := func(r servertest.Answer) {
				t.Helper()
				r.Problem(http.StatusInternalServerError, fault.SlugInternal)
			}
			refused(h.Do("GET", servertest.At+"/messages", ""))
			refused(h.Do("GET", servertest.At+"/messages?wait=20s", ""))
			refused(h.Do("POST", servertest.At+"/next", `{"receiptHandle":"`+receipt+`"}`))
			refused(h.Do("POST", servertest.At+"/ack", `{"receiptHandle":"`+receipt+`"}`))
			refused(h.Do("POST", "/v1/fetch", `{"from":[{"channel":"c","subscriber":"s"}]}`))
			refused(h.Do("GET", streamOfS, ""))
			refused(h.Do("PUT", "/v1/channels/c/subscribers/s", ""))
			if damaged.writes {
				refused(h.Do("POST", "/v1/channels/c/messages", `{"content":1}`))
				refused(h.Do("GET", tailOfC, ""))
				refused(h.OnAdmin().Do("GET", "/v1/channels/c", ""))
			}
			for range 2 {
				h.OnAdmin().Do("DELETE", "/v1/channels/c", "").With(http.StatusNoContent)
			}
			h.Subscribe("c", "s")
			h.Publish("c", "m2", "1")
			d := servertest.Decode[client.Delivery](h.Do("GET", servertest.At+"/messages", "").With(http.StatusOK))
			require.Len(t, d.Messages, 1)
			require.Equal(t, "m2", d.Messages[0].ID)
		})
	}
}

// TestChannelsOfAnotherType: a clock that is a list is none, on every way, and subscribers that are one can be deleted.
func TestChannelsOfAnotherType(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"clock", "subs"} {
		h := servertest.Start(t)
		h.Subscribe("c", "s")
		h.Redis.Do(t, "DEL", h.Prefix+"c.{c}."+key)
		h.Redis.Do(t, "RPUSH", h.Prefix+"c.{c}."+key, "x")
		if key == "clock" {
			for _, query := range []string{"", "?wait=20s"} {
				h.Do("GET", servertest.At+"/messages"+query, "").Problem(http.StatusNotFound, fault.SlugNoSubscriber)
			}
			h.Do("POST", "/v1/channels/c/messages", "{\"content\":1}").With(http.StatusCreated)
			continue
		}
		h.OnAdmin().Do("DELETE", "/v1/channels/c", "").With(http.StatusNoContent)
		h.Subscribe("c", "s")
	}
}

// TestDamagedDedupRecords: one that is no clock, or that the channel has not reached, is none.
func TestDamagedDedupRecords(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	h.Publish("c", "m1", "1")
	for i, record := range []string{"abc", "01", "1e0", "9"} {
		id := fmt.Sprint("x", i)
		h.Redis.Do(t, "SET", h.Prefix+"c.{c}.mid."+id, record, "PX", "600000")
		p := servertest.Decode[client.Published](h.Do("PUT", "/v1/channels/c/messages/"+id, "1").With(http.StatusCreated))
		require.False(t, p.Duplicate, record)
	}
}

// TestListWithADamagedChannel: the others are listed.
func TestListWithADamagedChannel(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	for _, channel := range []string{"a", "b", "c", "d"} {
		h.Publish(channel, "m1", "1")
	}
	h.Redis.Do(t, "SET", h.Prefix+"c.{a}.clock", "abc", "KEEPTTL")
	h.Redis.Do(t, "SET", h.Prefix+"c.{b}.epoch", "abc", "KEEPTTL")
	h.Redis.Do(t, "SET", h.Prefix+"c.{c}.subs", "abc")
	for query, want := range map[string][]string{"": {"b", "d"}, "?details=true": {"b", "d"}} {
		answer := h.OnAdmin().Do("GET", "/v1/channels"+query, "").With(http.StatusOK)
		var names []string
		for _, c := range servertest.Decode[wire.ChannelList](answer).Channels {
			names = append(names, c.Channel)
		}
		require.Equal(t, want, names, query)
	}
}
