package server_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/receipt"
	"github.com/tidemark-dev/tidemark/server/internal/servertest"
	"github.com/tidemark-dev/tidemark/wire"
)

const at = "/v1/channels/c/subscribers/s" // the subscriber of most tests

// step is a request, METHOD path body, and its answer.
type step struct {
	call   string
	status int
	answer string // JSON in which unpredictable values are "*"; or the slug of a problem; or "": no body
}

var (
	unpredictable = regexp.MustCompile(
		`"(epoch|receiptHandle|ackHandle|publishedAt|createTime|expireTime)":"[^"]*"|"(ttlMs)":\d+`)
	handles = regexp.MustCompile(`"(?:receiptHandle|ackHandle)":"([^"]*)"`)
)

// play takes the steps one after the other. RECEIPT in a call stands for the last receipt handle in an answer.
func (h *harness) play(steps ...step) {
	h.t.Helper()
	handle := ""
	for _, s := range steps {
		method, path, body := cut(strings.ReplaceAll(s.call, "RECEIPT", handle))
		got := h.do(method, path, body)
		switch {
		case strings.HasPrefix(s.answer, "{"), strings.HasPrefix(s.answer, "["):
			require.Equal(h.t, s.status, got.status, "%s: %s", s.call, got.body)
			require.JSONEq(h.t, s.answer, unpredictable.ReplaceAllString(string(got.body), `"$1$2":"*"`), s.call)
		case s.answer != "":
			got.problem(s.status, fault.Slug(s.answer))
		default:
			got.is(s.status, "")
		}
		if found := handles.FindSubmatch(got.body); found != nil {
			handle = string(found[1])
		}
	}
}

const nothing = `{"messages":[],"more":false,"expired":0}`

// TestChannels calls every route of channels for each of its answers.
func TestChannels(t *testing.T) {
	t.Parallel()
	const messages = "/v1/channels/c/messages"
	one := func(id string, clock int, content string) string {
		return fmt.Sprintf(`{"id":%q,"clock":%d,"content":%s,"publishedAt":"*"}`, id, clock, content)
	}
	start(t).play(
		step{"GET /v1/channels/c", 404, "channel-not-found"},
		step{`POST ` + messages + ` {"id":"a","content":{"n":1}}`, 201,
			`{"channel":"c","id":"a","clock":1,"duplicate":false}`},
		step{`POST ` + messages + ` {"id":"a","content":"other"}`, 200,
			`{"channel":"c","id":"a","clock":1,"duplicate":true}`},
		step{"PUT " + at, 201, `{"channel":"c","subscriber":"s","created":true,"epoch":"*","mark":1}`},
		step{"PUT " + at + ` {"from":"earliest"}`, 200,
			`{"channel":"c","subscriber":"s","created":false,"epoch":"*","mark":1}`},
		step{"GET " + at + "/messages", 200, nothing},
		step{`POST ` + messages + ` [{"id":"a","content":1},{"id":"b","content":2},{"id":"b","content":3}]`, 201,
			`[{"channel":"c","id":"a","clock":1,"duplicate":true},{"channel":"c","id":"b","clock":2,"duplicate":false},{"channel":"c","id":"b","clock":2,"duplicate":true}]`},
		step{`POST ` + messages + ` [{"id":"b","content":2}]`, 200,
			`[{"channel":"c","id":"b","clock":2,"duplicate":true}]`},
		step{"PUT " + messages + `/%61%3Ab {"n":1}`, 201, `{"channel":"c","id":"a:b","clock":3,"duplicate":false}`},
		step{"PUT " + messages + "/a:b 2", 200, `{"channel":"c","id":"a:b","clock":3,"duplicate":true}`},
		step{"GET /v1/channels/c", 200, `{"channel":"c","epoch":"*","clock":3,"oldest":1,"live":3,"ttlMs":"*","subscriberCount":1,
			"subscribers":[{"name":"s","mark":1,"lag":2}]}`},
		step{"HEAD /v1/channels/c", 200, ""},
		step{"GET " + at + "/messages?max=1", 200, `{"messages":[` + one("b", 2, "2") +
			`],"receiptHandle":"*","more":true,"expired":0}`},
		step{"POST " + at + `/next {"receiptHandle":"RECEIPT"}`, 200, `{"messages":[` + one("a:b", 3, `{"n":1}`) +
			`],"receiptHandle":"*","more":false,"expired":0}`},
		step{"POST " + at + `/ack {"receiptHandle":"RECEIPT"}`, 204, ""},
		step{"POST " + at + "/next", 200, nothing},
		step{"PUT /v1/channels/c/subscribers/latest {}", 201,
			`{"channel":"c","subscriber":"latest","created":true,"epoch":"*","mark":3}`},
		step{`PUT /v1/channels/c/subscribers/early {"from":"earliest"}`, 201,
			`{"channel":"c","subscriber":"early","created":true,"epoch":"*","mark":0}`},
		step{`PUT /v1/channels/c/subscribers/at {"from":1}`, 201,
			`{"channel":"c","subscriber":"at","created":true,"epoch":"*","mark":1}`},
		step{`PUT /v1/channels/c/subscribers/ahead {"from":4}`, 409, "invalid-from"},
		step{"DELETE " + at, 204, ""},
		step{"DELETE " + at, 204, ""},
		step{"GET " + at + "/messages", 404, "subscriber-not-found"},
		step{"POST " + at + `/next {"receiptHandle":"RECEIPT"}`, 404, "subscriber-not-found"},
		step{"POST " + at + `/ack {"receiptHandle":"RECEIPT"}`, 404, "subscriber-not-found"},
	)
}

// TestReceipts: one receipt that is forged, and one that doesn't fit the channel, for every call that takes them.
func TestReceipts(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.subscribe("c", "s")
	h.publish("c", "a", "1")
	ahead := receipt.Receipt{Channel: "c", Subscriber: "s", Clock: 2}
	for slug, handle := range map[fault.Slug]string{
		fault.SlugReceiptMalformed: "!", fault.SlugReceiptForged: newKeyring(t).Sign(ahead),
		fault.SlugReceiptEpoch: h.receipts.Sign(ahead),
	} {
		status := http.StatusBadRequest
		if slug == fault.SlugReceiptEpoch {
			status = http.StatusConflict
		}
		h.do("POST", at+"/ack", `{"receiptHandle":"`+handle+`"}`).problem(status, slug)
		h.do("POST", at+"/next", `{"receiptHandle":"`+handle+`"}`).problem(status, slug)
		h.do("DELETE", oldAt+"/message?ackHandle="+handle, "").oldError(400, wire.OldCodeAckHandle)
		require.Len(t, h.fetch("c", "s").Messages, 1, "the mark isn't moved")
	}
}

// waits are the calls that can wait.
var waits = []string{"GET " + at + "/messages?wait=1m", "POST " + at + `/next {"wait":60}`,
	"GET " + oldAt + "?timeout=24h"}

// waiting sends a request n times in the background and returns the answers, once all of them wait.
func (h *harness) waiting(ctx context.Context, n int, call string) <-chan answer {
	h.t.Helper()
	method, path, body := cut(call)
	fetched, answers := make(chan struct{}, 1000), make(chan answer, n)
	before, _ := h.service.Waiting()
	h.store.onFetch(func() { fetched <- struct{}{} })
	for range n {
		go func() {
			got, err := h.try(ctx, method, path, strings.NewReader(body))
			if err != nil {
				got = answer{t: h.t, body: []byte(err.Error())}
			}
			answers <- got
		}()
	}
	for waiters := before; waiters < before+n; waiters, _ = h.service.Waiting() {
		<-fetched // each of them fetches after it has begun to count as waiting
	}
	return answers
}

// TestLongPoll ends waits in all ways: a message, their time, their subscriber, and their client.
func TestLongPoll(t *testing.T) {
	t.Parallel()
	h := start(t)
	for i, call := range waits {
		h.subscribe("c", "s")
		answers := h.waiting(t.Context(), 2, call)
		h.publish("c", fmt.Sprint("m", i), `{ "for" : "all" }`)
		for range 2 {
			got := <-answers
			require.Equal(t, 200, got.status, "%s", got.body)
			require.Contains(t, string(got.body), `{ "for" : "all" }`)
		}
		h.do("POST", at+"/ack", `{"receiptHandle":"`+h.fetch("c", "s").ReceiptHandle+`"}`).is(204, "")

		ctx, cancel := context.WithCancel(t.Context())
		answers = h.waiting(ctx, 1, call)
		cancel()
		require.Contains(t, string((<-answers).body), "context canceled")
		_, path, _ := cut(call)
		path, _, _ = strings.Cut(path, "?")
		h.logs.Await(t, func(r servertest.Record) bool {
			return r.Attributes["path"] == path &&
				r.Attributes["status"] == "499"
		})

		answers = h.waiting(t.Context(), 1, call)
		h.do("DELETE", at, "").is(204, "")
		require.Equal(t, 404, (<-answers).status)
	}
	h.subscribe("c", "s")
	h.do("GET", at+"/messages?wait=20ms", "").is(200, nothing)
	h.do("GET", oldAt+"?timeout=20ms", "").is(200, `{"channelID":"c","messages":[],"moreMessages":false}`)
}

// TestDescribeInPages follows the cursors.
func TestDescribeInPages(t *testing.T) {
	t.Parallel()
	h := start(t)
	want, listed := map[string]bool{}, map[string]bool{}
	for i := range 200 {
		name := fmt.Sprintf("s%d", i)
		h.subscribe("c", name)
		want[name] = true
	}
	pages := 0
	for query := "?limit=20"; query != ""; pages++ {
		d := decode[wire.Description](h.do("GET", "/v1/channels/c"+query, ""))
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

// TestContentIsKeptByteForByte by each call that publishes, and each that delivers.
func TestContentIsKeptByteForByte(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.subscribe("c", "s")
	contents := []string{
		`{ "a" : [ 1,2 , {"b":null} ] }`, `"<&>\u0041\/é€😀"`, `1.50e+003`, `9007199254740993`, "[\n\t1\r\n]", `""`,
		`null`, `{"\u0061":1,"":2}`,
		`"cut \ud83d"`, `{"\uDE00":"\ud83d\ud83d x"}`, // half of a surrogate pair, as JavaScript writes it
		// like an answer of net/http
		"[ \"HTTP/1.1 400 Bad Request\",\r\n\r\n \"Content-Type: text/plain; charset=utf-8\\r\\nConnection: close\" ]",
	}
	for i, content := range contents {
		require.Equal(t, 201, h.do("POST", "/v1/channels/c/messages", fmt.Sprintf(`{"id":"a%d", "content" :  %s }`, i,
			content)).status)
		require.Equal(t, 201, h.do("PUT", fmt.Sprintf("/v1/channels/c/messages/b%d", i), " "+content+"\n").status)
		require.Equal(t, 200, h.do("PUT", fmt.Sprintf("/channel/c/message/c%d", i), content).status)
	}
	old := decode[wire.OldDelivery](h.do("GET", oldAt, ""))
	for _, got := range []wire.Delivery{h.fetch("c", "s"), decode[wire.Delivery](h.do("POST", at+"/next", "{}"))} {
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
	h := start(t)
	h.subscribe("c", "s")
	const publishers, each = 8, 25
	done := make(chan error, publishers)
	publish := func(p int) error {
		for i := range each {
			id := fmt.Sprintf("p%d-%d", p, i)
			body := fmt.Sprintf(`{"id":%q,"content":%q}`, id, strings.Repeat(id, 1+i))
			// no content type is wrong
			resp, err := h.client.Post(h.url+"/v1/channels/c/messages", "?", strings.NewReader(body))
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
	got := decode[wire.Delivery](h.do("GET", at+"/messages?max=1000", ""))
	require.Len(t, got.Messages, publishers*each)
	for _, m := range got.Messages {
		var p, i int
		_, err := fmt.Sscanf(m.ID, "p%d-%d", &p, &i)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("%q", strings.Repeat(m.ID, 1+i)), string(m.Content))
	}
}

var _ channel.Store = (*faultyStore)(nil)
