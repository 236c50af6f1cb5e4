package predecessor_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/wire"
	"github.com/tidemark-dev/tidemark/test/servertest"
)

// TestPredecessor calls every route of the predecessor's API for each of its answers.
func TestPredecessor(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	const nobody = `{"error":"the subscriber doesn't exist: subscribe first","code":"` + wire.OldCodeNoSubscriber + `"}`
	const subscription, none = `{"channelID":"c","subscriberID":"s"}`,
		`{"channelID":"c","messages":[],"moreMessages":false}`
	h.Play(
		servertest.Exchange{Call: "GET " + servertest.OldAt, Status: 404, Answer: nobody},
		servertest.Exchange{Call: "PUT " + servertest.OldAt + " this is ignored", Status: 200, Answer: subscription},
		servertest.Exchange{Call: "PUT " + servertest.OldAt, Status: 200, Answer: subscription},
		servertest.Exchange{Call: "GET " + servertest.OldAt, Status: 200, Answer: none},
		servertest.Exchange{Call: "GET " + servertest.OldAt + "?timeout=-5s", Status: 200, Answer: none},
		servertest.Exchange{Call: `PUT /channel/c/message/m1 { "text": "<hello>" }`, Status: 200,
			Answer: `{"channelID":"c","messageID":"m1"}`},
		servertest.Exchange{Call: `PUT /channel/c/message/m1 "again"`, Status: 200,
			Answer: `{"channelID":"c","messageID":"m1"}`},
		servertest.Exchange{Call: "PUT /v1/channels/c/messages/m2 2", Status: 201,
			Answer: `{"channel":"c","id":"m2","clock":2,"duplicate":false}`},
		servertest.Exchange{Call: "GET " + servertest.OldAt + "?timeout=1s&max=1&unknown=1&max=5&%zz=", Status: 200,
			Answer: `{"channelID":"c","messages":[{"messageID":"m1","content":{"text":"<hello>"}}],"ackHandle":"*","moreMessages":true}`},
		servertest.Exchange{Call: "DELETE " + servertest.OldAt + "/message?ackHandle=RECEIPT", Status: 204, Answer: ""},
		servertest.Exchange{Call: "DELETE " + servertest.OldAt + "/message?ackHandle=RECEIPT", Status: 204, Answer: ""},
		servertest.Exchange{Call: "GET " + servertest.OldAt, Status: 200,
			Answer: `{"channelID":"c","messages":[{"messageID":"m2","content":2}],"ackHandle":"*","moreMessages":false}`},
		servertest.Exchange{Call: "POST " + servertest.At + `/ack {"receiptHandle":"RECEIPT"}`, Status: 204,
			Answer: ""},
		servertest.Exchange{Call: "DELETE " + servertest.OldAt, Status: 200, Answer: subscription},
		servertest.Exchange{Call: "DELETE " + servertest.OldAt, Status: 200, Answer: subscription},
		servertest.Exchange{Call: "DELETE " + servertest.OldAt + "/message?ackHandle=RECEIPT", Status: 404,
			Answer: nobody},
		servertest.Exchange{Call: "GET /probe/liveness", Status: 200, Answer: `{"storage":{}}`},
		servertest.Exchange{Call: "GET /probe/readiness", Status: 200, Answer: `{"storage":{}}`},
		servertest.Exchange{Call: "HEAD /probe/readiness", Status: 200, Answer: ""},
	)
}

// TestPrefix: with a prefix all paths have it, and errors too have the predecessor's form below it.
func TestPrefix(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t, func(s *servertest.Setup) { s.OldPrefix = "/old/api" })
	do := func(call string) servertest.Answer { // not in docs/openapi.yaml
		method, path, _ := servertest.Cut(call)
		req, err := http.NewRequestWithContext(t.Context(), method, h.URL+path, http.NoBody)
		require.NoError(t, err)
		resp, err := h.Client.Do(req)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return servertest.Answer{TB: t, Status: resp.StatusCode, Header: resp.Header, Body: body}
	}
	const at = "/old/api/channel/c/subscription/polling/s"
	for _, tt := range []struct {
		call, answer string
		status       int
	}{
		{"PUT " + at, `{"channelID":"c","subscriberID":"s"}`, 200},
		{"GET " + at, `{"channelID":"c","messages":[],"moreMessages":false}`, 200},
		{"GET /old/api/probe/readiness", `{"storage":{}}`, 200},
		{"GET /old/api/channel/c", `{"error":"the path does not exist"}`, 404},
		{"GET /old/api/probe/x", `{"error":"the path does not exist"}`, 404},
	} {
		do(tt.call).Like(tt.status, tt.answer)
	}
	for _, path := range []string{"/channel/c/subscription/polling/s", "/probe/liveness", "/old/api/x"} {
		do("GET "+path).Problem(404, fault.SlugNoPath)
	}
}

func TestPredecessorRefuses(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	h.Subscribe("c", "s")
	for call, message := range map[string]string{
		"GET " + servertest.OldAt + "?timeout=20": `Invalid "timeout" parameter "20"`,
		"GET " + servertest.OldAt + "?timeout=":   `Invalid "timeout" parameter ""`,
		"GET " + servertest.OldAt + "?max=-1":     `Invalid "max" parameter "-1"`,
		"GET " + servertest.OldAt + "?max=many":   `Invalid "max" parameter "many"`,
		"DELETE " + servertest.OldAt + "/message": `Missing "ackHandle" parameter`,
		"PUT /channel/c/message/m":                "Request body is not JSON: the body is empty, it must be JSON",
		"PUT /channel/c/message/m {":              "Request body is not JSON: unexpected end of JSON",
		"PUT /channel/c/message/-m 1":             `Invalid "messageID" parameter: the message ID "-m" has '-' at byte 0: it must match ^[0-9A-Za-z][0-9A-Za-z_.:-]{0,127}$`,
		"PUT /channel//message/m 1":               `Invalid "channelID" parameter: the channel name is empty`,
		"PUT /channel//subscription/polling/s":    `Invalid "channelID" parameter: the channel name is empty`,
		"PUT /channel/c/subscription/polling/-":   `Invalid "subscriberID" parameter: the subscriber name "-" has '-' at byte 0: it must match ^[0-9A-Za-z][0-9A-Za-z_.:-]{0,127}$`,
	} {
		method, path, body := servertest.Cut(call)
		require.Equal(t, message, h.Do(method, path, body).OldError(400, "").Error, call)
	}
	for _, path := range []string{"/channel/c", "/channel/c/subscription/polling", "/channel/c/message/m/n"} {
		h.Do("GET", path, "").OldError(404, "")
	}
	got := h.Do("POST", "/channel/c/message/m", "")
	got.OldError(405, "")
	require.Equal(t, "OPTIONS, PUT", got.Header.Get("Allow"))
}
