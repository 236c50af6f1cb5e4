package server_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/receipt"
	"github.com/tidemark-dev/tidemark/server/internal/servertest"
	"github.com/tidemark-dev/tidemark/wire"
)

const at = "/v1/channels/c/subscribers/s" // the subscriber of most tests

func TestSubscribe(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.publish("c", "a", "1")
	h.publish("c", "b", "2")

	first := h.do("PUT", at, "")
	require.Equal(t, 201, first.status)
	sub := decode[wire.Subscription](first)
	require.Equal(t, wire.Subscription{Channel: "c", Subscriber: "s", Created: true, Epoch: sub.Epoch, Mark: 2}, sub)

	again := h.do("PUT", at, `{"from":"earliest"}`)
	require.Equal(t, 200, again.status)
	sub.Created = false
	require.Equal(t, sub, decode[wire.Subscription](again), "the mark isn't moved")

	for name, want := range map[string]struct {
		body string
		mark clock.Clock
	}{
		"latest": {`{"from":"latest"}`, 2}, "none": {`{}`, 2}, "earliest": {`{"from":"earliest"}`, 0}, "clock": {`{"from":1}`, 1},
	} {
		got := decode[wire.Subscription](h.do("PUT", "/v1/channels/c/subscribers/"+name, want.body))
		require.Equal(t, want.mark, got.Mark, name)
	}
	h.do("PUT", "/v1/channels/c/subscribers/ahead", `{"from":3}`).problem(409, fault.SlugInvalidFrom)
}

func TestUnsubscribe(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.subscribe("c", "s")
	h.do("DELETE", at, "").is(204, "")
	h.do("DELETE", at, "").is(204, "")
	h.do("GET", at+"/messages", "").problem(404, fault.SlugNoSubscriber)
}

func TestFetch(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.subscribe("c", "s")
	got := h.do("GET", at+"/messages", "")
	got.is(200, `{"messages":[],"more":false,"expired":0}`)
	require.Equal(t, "no-store", got.header.Get("Cache-Control"))

	for i := range 5 {
		h.publish("c", fmt.Sprintf("m%d", i), fmt.Sprint(i))
	}
	two := decode[wire.Delivery](h.do("GET", at+"/messages?max=2", ""))
	require.Len(t, two.Messages, 2)
	require.True(t, two.More)
	require.NotEmpty(t, two.ReceiptHandle)
	require.Equal(t, "m0", two.Messages[0].ID)
	require.EqualValues(t, 1, two.Messages[0].Clock)

	all := h.fetch("c", "s")
	require.Len(t, all.Messages, 5, "nothing was acknowledged")
	require.False(t, all.More)
}

func TestFetchTellsWhatExpired(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.subscribe("c", "s")
	for i := range 3 {
		h.publish("c", fmt.Sprintf("m%d", i), "1")
	}
	h.redis.Do(t, "DEL", h.prefix+"c.{c}.m.1", h.prefix+"c.{c}.m.2")
	got := h.fetch("c", "s")
	require.EqualValues(t, 2, got.Expired)
	require.Len(t, got.Messages, 1)

	h.redis.Do(t, "DEL", h.prefix+"c.{c}.m.3")
	got = h.fetch("c", "s")
	require.Equal(t, wire.Delivery{Messages: []wire.Message{}, Expired: 3, ReceiptHandle: got.ReceiptHandle}, got)
	h.do("POST", at+"/ack", `{"receiptHandle":"`+got.ReceiptHandle+`"}`).is(204, "")
	h.do("GET", at+"/messages", "").is(200, `{"messages":[],"more":false,"expired":0}`)
}

func TestAck(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.subscribe("c", "s")
	h.publish("c", "a", "1")
	first := h.fetch("c", "s")
	ack := func(d wire.Delivery) answer {
		return h.do("POST", at+"/ack", `{"receiptHandle":"`+d.ReceiptHandle+`"}`)
	}
	ack(first).is(204, "")
	ack(first).is(204, "")

	h.publish("c", "b", "2")
	second := h.fetch("c", "s")
	require.Len(t, second.Messages, 1)
	ack(second).is(204, "")
	ack(first).is(204, "")
	require.Empty(t, h.fetch("c", "s").Messages, "an older receipt doesn't move the mark back")
}

func TestNext(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.subscribe("c", "s")
	for i := range 3 {
		h.publish("c", fmt.Sprintf("m%d", i), "1")
	}
	first := decode[wire.Delivery](h.do("POST", at+"/next", `{"max":2}`))
	require.Len(t, first.Messages, 2)
	second := decode[wire.Delivery](h.do("POST", at+"/next", `{"receiptHandle":"`+first.ReceiptHandle+`","wait":"10s"}`))
	require.Len(t, second.Messages, 1)
	require.Equal(t, "m2", second.Messages[0].ID)
	h.do("POST", at+"/next", `{"receiptHandle":"`+second.ReceiptHandle+`","wait":0}`).is(200, `{"messages":[],"more":false,"expired":0}`)
	h.do("POST", at+"/next", "").is(200, `{"messages":[],"more":false,"expired":0}`)
}

// TestReceipts refuses receipts in every call that takes them, and shows that the mark stays where it is.
func TestReceipts(t *testing.T) {
	t.Parallel()
	h := start(t)
	sub := h.subscribe("c", "s")
	h.publish("c", "a", "1")
	epoch, err := ulid.ParseStrict(sub.Epoch)
	require.NoError(t, err)
	good := receipt.Receipt{Channel: "c", Subscriber: "s", Epoch: epoch, Clock: 1, MessageID: "a"}
	sign := func(change func(*receipt.Receipt)) string {
		r := good
		change(&r)
		return h.receipts.Sign(r)
	}
	handle := h.receipts.Sign(good)
	for name, test := range map[string]struct {
		handle string
		status int
		slug   fault.Slug
	}{
		"empty":            {"", 400, fault.SlugReceiptMalformed},
		"malformed":        {"!", 400, fault.SlugReceiptMalformed},
		"cut":              {handle[:len(handle)-4], 400, fault.SlugReceiptMalformed},
		"damaged":          {handle[:8] + "AAAA" + handle[12:], 400, fault.SlugReceiptForged},
		"forged":           {newKeyring(t).Sign(good), 400, fault.SlugReceiptForged},
		"other channel":    {sign(func(r *receipt.Receipt) { r.Channel = "d" }), 400, fault.SlugReceiptChannel},
		"other subscriber": {sign(func(r *receipt.Receipt) { r.Subscriber = "t" }), 400, fault.SlugReceiptSubscriber},
		"other epoch":      {sign(func(r *receipt.Receipt) { r.Epoch = ulid.Make() }), 409, fault.SlugReceiptEpoch},
		"ahead":            {sign(func(r *receipt.Receipt) { r.Clock = 2 }), 409, fault.SlugReceiptAhead},
		"superseded":       {sign(func(r *receipt.Receipt) { r.MessageID = "b" }), 409, fault.SlugReceiptSuperseded},
	} {
		body := `{"receiptHandle":"` + test.handle + `"}`
		h.do("POST", at+"/ack", body).problem(test.status, test.slug)
		if name != "empty" {
			h.do("POST", at+"/next", body).problem(test.status, test.slug)
			h.do("DELETE", "/channel/c/subscription/polling/s/message?ackHandle="+test.handle, "").oldError(400, wire.OldCodeAckHandle)
		}
		require.Len(t, h.fetch("c", "s").Messages, 1, name)
	}
	h.do("POST", at+"/ack", `{"receiptHandle":"`+handle+`"}`).is(204, "")

	gone := sign(func(r *receipt.Receipt) { r.Subscriber = "gone" })
	h.do("POST", "/v1/channels/c/subscribers/gone/ack", `{"receiptHandle":"`+gone+`"}`).problem(404, fault.SlugNoSubscriber)
	h.do("POST", "/v1/channels/c/subscribers/gone/next", `{"receiptHandle":"`+gone+`"}`).problem(404, fault.SlugNoSubscriber)
	h.do("DELETE", "/channel/c/subscription/polling/gone/message?ackHandle="+gone, "").oldError(404, wire.OldCodeNoSubscriber)
}

// waiting makes requests of a path in the background and gives their answers, once all of them wait.
func (h *harness) waiting(ctx context.Context, n int, method, path, body string) <-chan answer {
	h.t.Helper()
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
		<-fetched // every one of them fetches after it has begun to count as waiting
	}
	return answers
}

func TestLongPoll(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.subscribe("c", "s")
	for call, answers := range map[string]<-chan answer{
		"fetch": h.waiting(t.Context(), 2, "GET", at+"/messages?wait=1m", ""),
		"next":  h.waiting(t.Context(), 2, "POST", at+"/next", `{"wait":60}`),
		"poll":  h.waiting(t.Context(), 2, "GET", "/channel/c/subscription/polling/s?timeout=24h", ""),
	} {
		h.publish("c", "to-"+call, `{ "for" : "all" }`)
		for range 2 {
			got := <-answers
			require.Equal(t, 200, got.status, "%s", got.body)
			require.Contains(t, string(got.body), `{ "for" : "all" }`)
		}
		h.do("POST", at+"/ack", `{"receiptHandle":"`+h.fetch("c", "s").ReceiptHandle+`"}`).is(204, "")
	}
}

func TestLongPollEndsWithItsWait(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.subscribe("c", "s")
	h.do("GET", at+"/messages?wait=20ms", "").is(200, `{"messages":[],"more":false,"expired":0}`)
	h.do("GET", "/channel/c/subscription/polling/s?timeout=20ms", "").is(200, `{"channelID":"c","messages":[],"moreMessages":false}`)
}

func TestLongPollEndsWithItsSubscriber(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.subscribe("c", "s")
	answers := h.waiting(t.Context(), 1, "GET", at+"/messages?wait=1m", "")
	old := h.waiting(t.Context(), 1, "GET", "/channel/c/subscription/polling/s?timeout=1m", "")
	h.do("DELETE", at, "").is(204, "")
	got := <-answers
	got.problem(404, fault.SlugNoSubscriber)
	got = <-old
	got.oldError(404, wire.OldCodeNoSubscriber)
}

func TestLongPollEndsWithItsClient(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.subscribe("c", "s")
	for _, call := range []struct{ method, path, body string }{
		{"GET", at + "/messages?wait=1m", ""}, {"POST", at + "/next", `{"wait":"1m"}`}, {"GET", "/channel/c/subscription/polling/s?timeout=1m", ""},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		answers := h.waiting(ctx, 1, call.method, call.path, call.body)
		cancel()
		require.Contains(t, string((<-answers).body), "context canceled")
		path, _, _ := strings.Cut(call.path, "?")
		h.logs.Await(t, func(r servertest.Record) bool {
			return r.Attributes["path"] == path && r.Attributes["method"] == call.method && r.Attributes["status"] == "499"
		})
	}
	waiters, _ := h.service.Waiting()
	require.Zero(t, waiters)
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.do("GET", "/v1/channels/c", "").problem(404, fault.SlugNoChannel)

	sub := h.subscribe("c", "s")
	empty := decode[wire.Description](h.do("GET", "/v1/channels/c", ""))
	require.Nil(t, empty.Oldest)
	require.Zero(t, empty.Live)

	h.publish("c", "a", "1")
	h.publish("c", "b", "2")
	h.subscribe("c", "t")
	got := decode[wire.Description](h.do("GET", "/v1/channels/c", ""))
	require.Positive(t, got.TTLMillis)
	require.LessOrEqual(t, got.TTLMillis, time.Minute.Milliseconds())
	oldest := clock.Clock(1)
	require.Equal(t, wire.Description{
		Channel: "c", Epoch: sub.Epoch, Clock: 2, Oldest: &oldest, Live: 2, TTLMillis: got.TTLMillis,
		SubscriberCount: 2,
		Subscribers:     []wire.SubscriberLag{{Name: "s", Mark: 0, Lag: 2}, {Name: "t", Mark: 2, Lag: 0}},
	}, got)

	head := h.do("HEAD", "/v1/channels/c", "")
	require.Equal(t, http.StatusOK, head.status)
	require.Equal(t, wire.MediaJSON, head.header.Get("Content-Type"))
}

func TestDescribeInPages(t *testing.T) {
	t.Parallel()
	h := start(t)
	want := map[string]bool{}
	for i := range 300 {
		name := fmt.Sprintf("s%d", i)
		h.subscribe("c", name)
		want[name] = true
	}
	first := decode[wire.Description](h.do("GET", "/v1/channels/c", ""))
	require.GreaterOrEqual(t, len(first.Subscribers), channel.DefaultPage)
	require.Less(t, len(first.Subscribers), 2*channel.DefaultPage)
	listed := map[string]bool{}
	for query := "?limit=20"; query != ""; {
		d := decode[wire.Description](h.do("GET", "/v1/channels/c"+query, ""))
		require.Equal(t, uint64(300), d.SubscriberCount)
		for _, sub := range d.Subscribers {
			listed[sub.Name] = true
		}
		query = ""
		if d.Cursor != "" {
			query = "?limit=20&cursor=" + d.Cursor
		}
	}
	require.Equal(t, want, listed)
}

func TestLimitsOfAFetch(t *testing.T) {
	t.Parallel()
	h := start(t, func(s *setup) {
		s.channelLimits.MaxMax, s.channelLimits.DefaultMax, s.channelLimits.MaxWait = 10, 3, time.Second
	})
	h.subscribe("c", "s")
	for i := range 12 {
		h.publish("c", fmt.Sprintf("m%d", i), "1")
	}
	require.Len(t, h.fetch("c", "s").Messages, 3)
	require.Len(t, decode[wire.Delivery](h.do("GET", at+"/messages?max=10&wait=1", "")).Messages, 10)
	require.Equal(t, "max", h.do("GET", at+"/messages?max=11", "").problem(400, fault.SlugInvalidMax).Field)
	require.Equal(t, "wait", h.do("GET", at+"/messages?wait=1001ms", "").problem(400, fault.SlugInvalidWait).Field)
	h.do("POST", at+"/next", `{"max":11}`).problem(400, fault.SlugInvalidMax)
	h.do("POST", at+"/next", `{"wait":2}`).problem(400, fault.SlugInvalidWait)
	require.Len(t, decode[wire.OldDelivery](h.do("GET", "/channel/c/subscription/polling/s?max=11&timeout=1h", "")).Messages, 10, "the predecessor's are cut")
}

var _ channel.Store = (*faultyStore)(nil)
