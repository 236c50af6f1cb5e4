package servertest

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

// FetchBody returns the body of a fetch from channels, each CHANNEL, CHANNEL/SUBSCRIBER or CHANNEL/SUBSCRIBER/RECEIPT.
func FetchBody(from ...string) string {
	r := wire.FetchRequest{}
	for _, source := range from {
		name, rest, named := strings.Cut(source, "/")
		subscriber, handle, _ := strings.Cut(rest, "/")
		if !named {
			subscriber = "s"
		}
		r.From = append(r.From, client.Source{Channel: name, Subscriber: subscriber, ReceiptHandle: handle})
	}
	body, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	return string(body)
}

// OldAt is At in the API of the predecessor.
const OldAt = "/channel/c/subscription/polling/s"

// At is the subscriber of most tests.
const At = "/v1/channels/c/subscribers/s"

// Exchange is a request, METHOD path body, and its answer.
type Exchange struct {
	Call   string
	Status int
	Answer string // JSON in which unpredictable values are "*"; or the slug of a problem; or "": no body
}

var (
	unpredictable = regexp.MustCompile(
		`"(epoch|receiptHandle|ackHandle|publishedAt|createTime|expireTime)":"[^"]*"|"(ttlMs)":\d+`)
	handles = regexp.MustCompile(`"(?:receiptHandle|ackHandle)":"([^"]*)"`)
)

// Play takes the steps one after the other. RECEIPT in a call stands for the last receipt handle in an answer.
func (h *Harness) Play(steps ...Exchange) {
	h.TB.Helper()
	handle := ""
	for _, s := range steps {
		method, path, body := Cut(strings.ReplaceAll(s.Call, "RECEIPT", handle))
		got := h.Do(method, path, body)
		switch {
		case strings.HasPrefix(s.Answer, "{"), strings.HasPrefix(s.Answer, "["):
			require.Equal(h.TB, s.Status, got.Status, "%s: %s", s.Call, got.Body)
			require.JSONEq(h.TB, s.Answer, unpredictable.ReplaceAllString(string(got.Body), `"$1$2":"*"`), s.Call)
		case s.Answer != "":
			got.Problem(s.Status, fault.Slug(s.Answer))
		default:
			got.Expect(s.Status, "")
		}
		if found := handles.FindSubmatch(got.Body); found != nil {
			handle = string(found[1])
		}
	}
}

// Nothing is an empty delivery.
const Nothing = `{"messages":[],"more":false,"expired":0}`

// Waits are the calls that can wait.
var Waits = []string{"GET " + At + "/messages?wait=1m", "POST " + At + `/next {"wait":60}`,
	"GET " + OldAt + "?timeout=24h"}

// Waiting sends a request n times in the background and returns the answers, once all of them wait.
func (h *Harness) Waiting(ctx context.Context, n int, call string) <-chan Answer {
	h.TB.Helper()
	method, path, body := Cut(call)
	fetched, answers := make(chan struct{}, 1000), make(chan Answer, n)
	before, _ := h.Service.Waiting()
	h.Store.onFetch(func() { fetched <- struct{}{} })
	for range n {
		go func() {
			got, err := h.Try(ctx, method, path, strings.NewReader(body))
			if err != nil {
				got = Answer{TB: h.TB, Body: []byte(err.Error())}
			}
			answers <- got
		}()
	}
	for waiters := before; waiters < before+n; waiters, _ = h.Service.Waiting() {
		<-fetched // each of them fetches after it has begun to count as waiting
	}
	return answers
}
