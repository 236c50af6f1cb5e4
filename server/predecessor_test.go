package server_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/wire"
)

const oldAt = "/channel/c/subscription/polling/s"

// TestPredecessor calls every route of the predecessor's API for each of its answers.
func TestPredecessor(t *testing.T) {
	t.Parallel()
	h := start(t)
	const nobody = `{"error":"the subscriber doesn't exist: subscribe first","code":"` + wire.OldCodeNoSubscriber + `"}`
	const subscription, none = `{"channelID":"c","subscriberID":"s"}`,
		`{"channelID":"c","messages":[],"moreMessages":false}`
	h.play(
		step{"GET " + oldAt, 404, nobody},
		step{"PUT " + oldAt + " this is ignored", 200, subscription},
		step{"PUT " + oldAt, 200, subscription},
		step{"GET " + oldAt, 200, none},
		step{"GET " + oldAt + "?timeout=-5s", 200, none},
		step{`PUT /channel/c/message/m1 { "text": "<hello>" }`, 200, `{"channelID":"c","messageID":"m1"}`},
		step{`PUT /channel/c/message/m1 "again"`, 200, `{"channelID":"c","messageID":"m1"}`},
		step{"PUT /v1/channels/c/messages/m2 2", 201, `{"channel":"c","id":"m2","clock":2,"duplicate":false}`},
		step{"GET " + oldAt + "?timeout=1s&max=1&unknown=1&max=5&%zz=", 200,
			`{"channelID":"c","messages":[{"messageID":"m1","content":{"text":"<hello>"}}],"ackHandle":"*","moreMessages":true}`},
		step{"DELETE " + oldAt + "/message?ackHandle=RECEIPT", 204, ""},
		step{"DELETE " + oldAt + "/message?ackHandle=RECEIPT", 204, ""},
		step{"GET " + oldAt, 200,
			`{"channelID":"c","messages":[{"messageID":"m2","content":2}],"ackHandle":"*","moreMessages":false}`},
		step{"POST " + at + `/ack {"receiptHandle":"RECEIPT"}`, 204, ""},
		step{"DELETE " + oldAt, 200, subscription},
		step{"DELETE " + oldAt, 200, subscription},
		step{"DELETE " + oldAt + "/message?ackHandle=RECEIPT", 404, nobody},
		step{"GET /probe/liveness", 200, `{"storage":{}}`},
		step{"GET /probe/readiness", 200, `{"storage":{}}`},
		step{"HEAD /probe/readiness", 200, ""},
	)
}

func TestPredecessorRefuses(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.subscribe("c", "s")
	for call, message := range map[string]string{
		"GET " + oldAt + "?timeout=20":         `Invalid "timeout" parameter "20"`,
		"GET " + oldAt + "?timeout=":           `Invalid "timeout" parameter ""`,
		"GET " + oldAt + "?max=-1":             `Invalid "max" parameter "-1"`,
		"GET " + oldAt + "?max=many":           `Invalid "max" parameter "many"`,
		"DELETE " + oldAt + "/message":         `Missing "ackHandle" parameter`,
		"PUT /channel/c/message/m":             "the body is empty, it must be JSON",
		"PUT /channel/c/message/-m":            `the message ID "-m" has '-' at byte 0: it must match ^[0-9A-Za-z][0-9A-Za-z_.:-]{0,127}$`,
		"PUT /channel//message/m 1":            "the channel name is empty",
		"PUT /channel//subscription/polling/s": "the channel name is empty",
	} {
		method, path, body := cut(call)
		require.Equal(t, message, h.do(method, path, body).oldError(400, "").Error, call)
	}
	for _, path := range []string{"/channel/c", "/channel/c/subscription/polling", "/channel/c/message/m/n"} {
		h.do("GET", path, "").oldError(404, "")
	}
	got := h.do("POST", "/channel/c/message/m", "")
	got.oldError(405, "")
	require.Equal(t, "OPTIONS, PUT", got.header.Get("Allow"))
}
