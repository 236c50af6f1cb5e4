package v1_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/wire"
	"github.com/tidemark-dev/tidemark/receipt"
	"github.com/tidemark-dev/tidemark/test/servertest"
)

// TestChannels calls every route of channels for each of its answers.
func TestChannels(t *testing.T) {
	t.Parallel()
	const messages = "/v1/channels/c/messages"
	message := func(id string, clock int, content string) string {
		return fmt.Sprintf(`{"id":%q,"clock":%d,"content":%s,"publishedAt":"*"}`, id, clock, content)
	}
	servertest.Start(t).Play(
		servertest.Exchange{Call: "GET /v1/channels/c", Status: 404, Answer: "channel-not-found"},
		servertest.Exchange{Call: `POST ` + messages + ` {"id":"a","content":{"n":1}}`, Status: 201,
			Answer: `{"channel":"c","id":"a","clock":1,"duplicate":false}`},
		servertest.Exchange{Call: `POST ` + messages + ` {"id":"a","content":"other"}`, Status: 200,
			Answer: `{"channel":"c","id":"a","clock":1,"duplicate":true,"differs":true}`},
		servertest.Exchange{Call: "PUT " + servertest.At, Status: 201,
			Answer: `{"channel":"c","subscriber":"s","created":true,"epoch":"*","mark":1}`},
		servertest.Exchange{Call: "PUT " + servertest.At + ` {"from":"earliest"}`, Status: 200,
			Answer: `{"channel":"c","subscriber":"s","created":false,"epoch":"*","mark":1}`},
		servertest.Exchange{Call: "GET " + servertest.At + "/messages", Status: 200, Answer: servertest.Nothing},
		servertest.Exchange{Call: `POST ` + messages +
			` [{"id":"a","content":1},{"id":"b","content":2},{"id":"b","content":3}]`, Status: 201,
			Answer: `[{"channel":"c","id":"a","clock":1,"duplicate":true,"differs":true},{"channel":"c","id":"b","clock":2,"duplicate":false},{"channel":"c","id":"b","clock":2,"duplicate":true,"differs":true}]`},
		servertest.Exchange{Call: `POST ` + messages + ` [{"id":"b","content":2}]`, Status: 200,
			Answer: `[{"channel":"c","id":"b","clock":2,"duplicate":true}]`},
		servertest.Exchange{Call: "PUT " + messages + `/%61%3Ab {"n":1}`, Status: 201,
			Answer: `{"channel":"c","id":"a:b","clock":3,"duplicate":false}`},
		servertest.Exchange{Call: "PUT " + messages + "/a:b 2", Status: 200,
			Answer: `{"channel":"c","id":"a:b","clock":3,"duplicate":true,"differs":true}`},
		servertest.Exchange{Call: "GET /v1/channels/c", Status: 200, Answer: `{"channel":"c","epoch":"*","clock":3,"oldest":1,"live":3,"ttlMs":"*","subscriberCount":1,
			"subscribers":[{"name":"s","mark":1,"lag":2}]}`},
		servertest.Exchange{Call: "HEAD /v1/channels/c", Status: 200, Answer: ""},
		servertest.Exchange{Call: "GET " + servertest.At + "/messages?max=1", Status: 200, Answer: `{"messages":[` +
			message("b", 2, "2") +
			`],"receiptHandle":"*","more":true,"expired":0}`},
		servertest.Exchange{Call: "POST " + servertest.At + `/next {"receiptHandle":"RECEIPT"}`, Status: 200,
			Answer: `{"messages":[` + message("a:b", 3, `{"n":1}`) +
				`],"receiptHandle":"*","more":false,"expired":0}`},
		servertest.Exchange{Call: "POST " + servertest.At + `/ack {"receiptHandle":"RECEIPT"}`, Status: 204,
			Answer: ""},
		servertest.Exchange{Call: "POST " + servertest.At + "/next", Status: 200, Answer: servertest.Nothing},
		servertest.Exchange{Call: "PUT /v1/channels/c/subscribers/latest {}", Status: 201,
			Answer: `{"channel":"c","subscriber":"latest","created":true,"epoch":"*","mark":3}`},
		servertest.Exchange{Call: `PUT /v1/channels/c/subscribers/early {"from":"earliest"}`, Status: 201,
			Answer: `{"channel":"c","subscriber":"early","created":true,"epoch":"*","mark":0}`},
		servertest.Exchange{Call: `PUT /v1/channels/c/subscribers/at {"from":1}`, Status: 201,
			Answer: `{"channel":"c","subscriber":"at","created":true,"epoch":"*","mark":1}`},
		servertest.Exchange{Call: `PUT /v1/channels/c/subscribers/ahead {"from":4}`, Status: 409,
			Answer: "invalid-from"},
		servertest.Exchange{Call: "DELETE " + servertest.At, Status: 204, Answer: ""},
		servertest.Exchange{Call: "DELETE " + servertest.At, Status: 204, Answer: ""},
		servertest.Exchange{Call: "GET " + servertest.At + "/messages", Status: 404, Answer: "subscriber-not-found"},
		servertest.Exchange{Call: "POST " + servertest.At + `/next {"receiptHandle":"RECEIPT"}`, Status: 404,
			Answer: "subscriber-not-found"},
		servertest.Exchange{Call: "POST " + servertest.At + `/ack {"receiptHandle":"RECEIPT"}`, Status: 404,
			Answer: "subscriber-not-found"},
	)
}

// TestReceipts: a forged receipt, and a receipt of another channel, for every call with receipts.
func TestReceipts(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	h.Subscribe("c", "s")
	h.Publish("c", "a", "1")
	ahead := receipt.Receipt{Channel: "c", Subscriber: "s", Clock: 2}
	for slug, handle := range map[fault.Slug]string{
		fault.SlugReceiptMalformed: "!", fault.SlugReceiptForged: servertest.Keyring(t).Sign(ahead),
		fault.SlugReceiptEpoch: h.Receipts.Sign(ahead),
	} {
		status := http.StatusBadRequest
		if slug == fault.SlugReceiptEpoch {
			status = http.StatusConflict
		}
		h.Do("POST", servertest.At+"/ack", `{"receiptHandle":"`+handle+`"}`).Problem(status, slug)
		h.Do("POST", servertest.At+"/next", `{"receiptHandle":"`+handle+`"}`).Problem(status, slug)
		h.Do("DELETE", servertest.OldAt+"/message?ackHandle="+handle, "").OldError(400, wire.OldCodeAckHandle)
		require.Len(t, h.Fetch("c", "s").Messages, 1, "the mark isn't moved")
	}
}

// TestLongPoll ends waits in all ways: by a message, a timeout, the removal of the subscriber, and the client.
func TestLongPoll(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	for i, call := range servertest.Waits {
		h.Subscribe("c", "s")
		answers := h.Waiting(t.Context(), 2, call)
		h.Publish("c", fmt.Sprint("m", i), `{ "for" : "all" }`)
		for range 2 {
			got := <-answers
			require.Equal(t, 200, got.Status, "%s", got.Body)
			require.Contains(t, string(got.Body), `{ "for" : "all" }`)
		}
		h.Do("POST", servertest.At+"/ack", `{"receiptHandle":"`+h.Fetch("c", "s").ReceiptHandle+`"}`).Expect(204, "")

		ctx, cancel := context.WithCancel(t.Context())
		answers = h.Waiting(ctx, 1, call)
		cancel()
		require.Contains(t, string((<-answers).Body), "context canceled")
		_, path, _ := servertest.Cut(call)
		path, _, _ = strings.Cut(path, "?")
		h.Logs.Await(t, func(r servertest.Record) bool {
			return r.Attributes["path"] == path &&
				r.Attributes["status"] == "499"
		})

		answers = h.Waiting(t.Context(), 1, call)
		h.Do("DELETE", servertest.At, "").Expect(204, "")
		require.Equal(t, 404, (<-answers).Status)
	}
	h.Subscribe("c", "s")
	h.Do("GET", servertest.At+"/messages?wait=20ms", "").Expect(200, servertest.Nothing)
	h.Do("GET", servertest.OldAt+"?timeout=20ms", "").Expect(200, `{"channelID":"c","messages":[],"moreMessages":false}`)
}

// TestDescribeInPages follows the cursors.
func TestDescribeInPages(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	want, listed := map[string]bool{}, map[string]bool{}
	for i := range 200 {
		name := fmt.Sprintf("s%d", i)
		h.Subscribe("c", name)
		want[name] = true
	}
	pages := 0
	for query := "?limit=20"; query != ""; pages++ {
		d := servertest.Decode[client.Description](h.Do("GET", "/v1/channels/c"+query, ""))
		require.Equal(t, uint64(200), d.SubscriberCount)
		for _, sub := range d.Subscribers {
			listed[sub.Name] = true
		}
		query = ""
		if d.Cursor != "" {
			query = "?limit=20&cursor=" + d.Cursor
		}
	}
	require.Equal(t, want, listed)
	require.Greater(t, pages, 5)
}

// TestContentIsKeptByteForByte checks each call that publishes, and each that delivers.
func TestContentIsKeptByteForByte(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	h.Subscribe("c", "s")
	contents := []string{
		`{ "a" : [ 1,2 , {"b":null} ] }`, `"<&>\u0041\/é€😀"`, `1.50e+003`, `9007199254740993`, "[\n\t1\r\n]", `""`,
		`null`, `{"\u0061":1,"":2}`,
		`"cut \ud83d"`, `{"\uDE00":"\ud83d\ud83d x"}`, // half of a surrogate pair, as JavaScript writes it
		// resembles an answer of net/http
		"[ \"HTTP/1.1 400 Bad Request\",\r\n\r\n \"Content-Type: text/plain; charset=utf-8\\r\\nConnection: close\" ]",
	}
	for i, content := range contents {
		require.Equal(t, 201, h.Do("POST", "/v1/channels/c/messages", fmt.Sprintf(`{"id":"a%d", "content" :  %s }`, i,
			content)).Status)
		require.Equal(t, 201, h.Do("PUT", fmt.Sprintf("/v1/channels/c/messages/b%d", i), " "+content+"\n").Status)
		require.Equal(t, 200, h.Do("PUT", fmt.Sprintf("/channel/c/message/c%d", i), content).Status)
	}
	old := servertest.Decode[wire.OldDelivery](h.Do("GET", servertest.OldAt, ""))
	for _, got := range []client.Delivery{h.Fetch("c", "s"),
		servertest.Decode[client.Delivery](h.Do("POST", servertest.At+"/next", "{}"))} {
		require.Len(t, got.Messages, 3*len(contents))
		for i, m := range got.Messages {
			require.Equal(t, contents[i/3], string(m.Content))
			require.Equal(t, contents[i/3], string(old.Messages[i].Content))
			require.False(t, m.PublishedAt.IsZero())
		}
	}
}

// TestContentsDontMix publishes from many goroutines, whose bodies share buffers.
func TestContentsDontMix(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	h.Subscribe("c", "s")
	const publishers, each = 8, 25
	done := make(chan error, publishers)
	publish := func(p int) error {
		for i := range each {
			id := fmt.Sprintf("p%d-%d", p, i)
			body := fmt.Sprintf(`{"id":%q,"content":%q}`, id, strings.Repeat(id, 1+i))
			// without a content type
			resp, err := h.Client.Post(h.URL+"/v1/channels/c/messages", "", strings.NewReader(body))
			if err != nil {
				return err
			}
			_, err = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			if err != nil {
				return err
			}
		}
		return nil
	}
	for p := range publishers {
		go func() { done <- publish(p) }()
	}
	for range publishers {
		require.NoError(t, <-done)
	}
	got := servertest.Decode[client.Delivery](h.Do("GET", servertest.At+"/messages?max=1000", ""))
	require.Len(t, got.Messages, publishers*each)
	for _, m := range got.Messages {
		var p, i int
		_, err := fmt.Sscanf(m.ID, "p%d-%d", &p, &i)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("%q", strings.Repeat(m.ID, 1+i)), string(m.Content))
	}
}

var _ channel.Store = (*servertest.FaultyStore)(nil)
