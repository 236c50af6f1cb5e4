package server_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/wire"
)

const oldAt = "/channel/c/subscription/polling/s"

// TestPredecessor is the way of a client of the predecessor.
func TestPredecessor(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.do("PUT", oldAt, "").is(200, `{"channelID":"c","subscriberID":"s"}`)
	h.do("PUT", oldAt, "").is(200, `{"channelID":"c","subscriberID":"s"}`)
	h.do("GET", oldAt, "").is(200, `{"channelID":"c","messages":[],"moreMessages":false}`)

	h.do("PUT", "/channel/c/message/m1", `{ "text": "<hello>" }`).is(200, `{"channelID":"c","messageID":"m1"}`)
	h.do("PUT", "/channel/c/message/m1", `{ "text": "again" }`).is(200, `{"channelID":"c","messageID":"m1"}`)
	h.do("PUT", "/channel/c/message/m2", `2`).is(200, `{"channelID":"c","messageID":"m2"}`)

	got := h.do("GET", oldAt+"?timeout=1s&max=1&unknown=1&max=5&%zz=", "")
	first := decode[wire.OldDelivery](got)
	got.is(200, `{"channelID":"c","messages":[{"messageID":"m1","content":{ "text": "<hello>" }}],"ackHandle":"`+first.AckHandle+`","moreMessages":true}`)
	require.Equal(t, "no-store", got.header.Get("Cache-Control"))

	ack := func(handle string) answer {
		return h.do("DELETE", oldAt+"/message?ackHandle="+url.QueryEscape(handle), "")
	}
	ack(first.AckHandle).is(204, "")
	second := decode[wire.OldDelivery](h.do("GET", oldAt, ""))
	require.Equal(t, []wire.OldMessage{{MessageID: "m2", Content: []byte("2")}}, second.Messages)
	require.False(t, second.MoreMessages)
	ack(second.AckHandle).is(204, "")
	ack(second.AckHandle).is(204, "")
	ack(first.AckHandle).is(204, "")

	h.do("DELETE", oldAt, "").is(200, `{"channelID":"c","subscriberID":"s"}`)
	h.do("DELETE", oldAt, "").is(200, `{"channelID":"c","subscriberID":"s"}`)
	h.do("GET", oldAt, "").oldError(404, wire.OldCodeNoSubscriber)
	ack(second.AckHandle).oldError(404, wire.OldCodeNoSubscriber)
}

// TestLoneSurrogatesOnAllPaths publishes half of a surrogate pair, which JavaScript writes for text that was cut in the
// middle of a character.
func TestLoneSurrogatesOnAllPaths(t *testing.T) {
	t.Parallel()
	h := start(t)
	const content = `{ "\ud83d" : "cut \uD83D" }`
	h.do("PUT", oldAt, "")
	waiting := h.waiting(t.Context(), 1, "GET", oldAt+"?timeout=50s", "")
	require.Equal(t, 200, h.do("PUT", "/channel/c/message/m1", content).status)
	require.Contains(t, string((<-waiting).body), `{"messageID":"m1","content":`+content+`}`)
	require.Equal(t, 201, h.do("PUT", "/v1/channels/c/messages/m2", content).status)
	require.Equal(t, 201, h.do("POST", "/v1/channels/c/messages", `{"id":"m3","content":`+content+`}`).status)
	require.Equal(t, 201, h.do("POST", "/v1/channels/c/messages", `[{"id":"m4","content":`+content+`},{"content":`+content+`}]`).status)
	for _, got := range []answer{
		h.do("GET", oldAt+"?timeout=0s", ""), h.do("GET", at+"/messages", ""), h.do("POST", at+"/next", "{}"),
	} {
		require.Equal(t, 200, got.status)
		require.Equal(t, 5, strings.Count(string(got.body), `"content":`+content), "%s", got.body)
	}
}

func TestPredecessorSharesTheChannels(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.do("PUT", oldAt, `this is ignored`).is(200, `{"channelID":"c","subscriberID":"s"}`)
	h.publish("c", "a", `1`)
	h.do("PUT", "/channel/c/message/b", `2`)
	require.Len(t, h.fetch("c", "s").Messages, 2)
	got := decode[wire.OldDelivery](h.do("GET", oldAt, ""))
	h.do("POST", at+"/ack", `{"receiptHandle":"`+got.AckHandle+`"}`).is(204, "")
}

func TestPredecessorRefuses(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.subscribe("c", "s")
	for call, message := range map[string]string{
		"GET " + oldAt + "?timeout=20":         `Invalid "timeout" parameter "20"`,
		"GET " + oldAt + "?timeout=":           `Invalid "timeout" parameter ""`,
		"GET " + oldAt + "?timeout=x":          `Invalid "timeout" parameter "x"`,
		"GET " + oldAt + "?max=-1":             `Invalid "max" parameter "-1"`,
		"GET " + oldAt + "?max=0":              `Invalid "max" parameter "0"`,
		"GET " + oldAt + "?max=many":           `Invalid "max" parameter "many"`,
		"GET " + oldAt + "?max=":               `Invalid "max" parameter ""`,
		"DELETE " + oldAt + "/message":         `Missing "ackHandle" parameter`,
		"PUT /channel/c/message/m":             "the body is empty, it must be JSON",
		"PUT /channel/c/message/-m":            `the message ID "-m" has '-' at byte 0: it must match ^[0-9A-Za-z][0-9A-Za-z_.:-]{0,127}$`,
		"PUT /channel//message/m":              "the body is empty, it must be JSON",
		"PUT /channel//subscription/polling/s": "the channel name is empty",
	} {
		method, path, _ := cut(call)
		require.Equal(t, message, h.do(method, path, "").oldError(400, "").Error, call)
	}
	h.do("GET", oldAt+"?timeout=-5s", "").is(200, `{"channelID":"c","messages":[],"moreMessages":false}`)
	h.do("GET", "/channel/c", "").oldError(404, "")
	h.do("GET", "/channel/c/subscription/polling", "").oldError(404, "")
	h.do("GET", "/channel/c/message/m/n", "").oldError(404, "")
	got := h.do("POST", "/channel/c/message/m", "")
	got.oldError(405, "")
	require.Equal(t, "OPTIONS, PUT", got.header.Get("Allow"))
}

func TestPredecessorProbes(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.do("GET", "/probe/liveness", "").is(200, `{"storage":{}}`)
	h.do("GET", "/probe/readiness", "").is(200, `{"storage":{}}`)
	h.do("HEAD", "/probe/readiness", "").is(200, "")
}
