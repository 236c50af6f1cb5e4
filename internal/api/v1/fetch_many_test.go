package v1_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/test/servertest"
)

// problemsOf returns CHANNEL/SUBSCRIBER: STATUS SLUG of each problem of an answer.
func problemsOf(d servertest.Deliveries) (list []string) {
	for _, p := range d.Problems {
		list = append(list, fmt.Sprintf("%s/%s: %d %s", p.Channel, p.Subscriber, p.Status, p.Slug()))
	}
	return list
}

// TestFetchMany checks the effects of one call: it acknowledges, fetches, waits, and reports the problems of each
// channel.
func TestFetchMany(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	fetch := func(body string) servertest.Deliveries {
		t.Helper()
		got := h.Do("POST", "/v1/fetch", body)
		require.Equal(t, 200, got.Status, "%s", got.Body)
		return servertest.Decode[servertest.Deliveries](got)
	}
	require.Equal(t, client.MaxSources, channel.MaxSources)
	for _, name := range []string{"a", "b", "c"} {
		h.Subscribe(name, "s")
	}
	h.Do("POST", "/v1/fetch", servertest.FetchBody("a", "b", "c")).Expect(200, `{"deliveries":[],"problems":[]}`)
	h.Do("POST", "/v1/channels/b/messages", `[{"id":"b1","content":{ "n": 1.0 }},{"id":"b2","content":2}]`)
	h.Do("POST", "/v1/channels/c/messages", `{"id":"c1","content":3}`)
	d := fetch(strings.Replace(servertest.FetchBody("a", "b", "c"), "{", `{"max":2,"wait":"1m",`, 1))
	require.Empty(t, d.Problems)
	require.Len(t, d.Deliveries, 2, "max holds for all channels together")
	b := d.Deliveries[0]
	require.Equal(t, "b", b.Channel)
	require.Equal(t, `{ "n": 1.0 }`, string(b.Messages[0].Content), "byte for byte")
	require.True(t, b.More)

	good := "b/s/" + b.ReceiptHandle
	d = fetch(strings.Replace(servertest.FetchBody("a", good, "none", "c/s/"+b.ReceiptHandle, "c/t/garbage"), "{",
		`{"wait":"1m",`,
		1))
	require.Equal(t, []string{"none/s: 404 subscriber-not-found", "c/s: 400 receipt-wrong-channel",
		"c/t: 400 receipt-malformed"}, problemsOf(d))
	require.Equal(t, "/from/3/receiptHandle", d.Problems[1].Field)
	require.Len(t, d.Deliveries, 1)
	require.Equal(t, "b2", d.Deliveries[0].Messages[0].ID, "a repeat, and others' receipts, stop nothing")
	require.Len(t, fetch(servertest.FetchBody(good)).Deliveries, 1, "a repeat is a success")

	waiting := h.Waiting(t.Context(), 1,
		"POST /v1/fetch "+strings.Replace(servertest.FetchBody("a", "b/s/"+d.Deliveries[0].ReceiptHandle), "{",
			`{"wait":60,`, 1))
	h.Do("PUT", "/v1/channels/a/messages/a1", `"now"`)
	d = servertest.Decode[servertest.Deliveries](<-waiting)
	require.Len(t, d.Deliveries, 1)
	require.Equal(t, "a1", d.Deliveries[0].Messages[0].ID)
}

// TestBadFetchMany: bodies that are rejected as a whole.
func TestBadFetchMany(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	many := make([]string, 257)
	for i := range many {
		many[i] = fmt.Sprint("c", i)
	}
	long := strings.Repeat("x", 1<<19)
	for _, tt := range []struct {
		body  string
		slug  fault.Slug
		field string
	}{
		{``, fault.SlugInvalidBody, ""},
		{`[]`, fault.SlugInvalidBody, ""},
		{`{}`, fault.SlugInvalidBody, "/from"},
		{`{"from":{}}`, fault.SlugInvalidBody, "/from"},
		{`{"from":[]}`, fault.SlugInvalidSources, "/from"},
		{`{"from":[{}]}`, fault.SlugInvalidBody, "/from/0/channel"},
		{`{"from":[{"channel":"a"}]}`, fault.SlugInvalidBody, "/from/0/subscriber"},
		{`{"from":[{"channel":1,"subscriber":"s"}]}`, fault.SlugInvalidBody, "/from/0/channel"},
		{`{"from":[{"channel":"a","channel":"b","subscriber":"s"}]}`, fault.SlugInvalidBody, "/from/0/channel"},
		{`{"from":[{"channel":"a","subscriber":"s","max":1}]}`, fault.SlugInvalidBody, "/from/0/max"},
		{servertest.FetchBody("a", "b/t", "a"), fault.SlugInvalidSources, "/from/2"},
		{servertest.FetchBody(many...), fault.SlugInvalidSources, "/from/256"},
		{servertest.FetchBody("a", "b}"), fault.SlugInvalidChannel, "/from/1/channel"},
		{servertest.FetchBody("a", long), fault.SlugInvalidChannel, "/from/1/channel"},
		{servertest.FetchBody("a/" + long), fault.SlugInvalidSubscriber, "/from/0/subscriber"},
		{strings.Replace(servertest.FetchBody("a"), "{", `{"max":0,`, 1), fault.SlugInvalidMax, "/max"},
		{strings.Replace(servertest.FetchBody("a"), "{", `{"max":1001,`, 1), fault.SlugInvalidMax, "max"},
		{strings.Replace(servertest.FetchBody("a"), "{", `{"wait":"61s",`, 1), fault.SlugInvalidWait, "wait"},
		{strings.Replace(servertest.FetchBody("a"), "{", `{"wait":-1,`, 1), fault.SlugInvalidWait, "/wait"},
		{`{"from":` + strings.Repeat("[", 500_000), fault.SlugInvalidBody, "/from/0"},
		{`{"from":[{"channel":` + strings.Repeat(`{"a":`, 150_000), fault.SlugInvalidBody, "/from/0/channel"},
	} {
		got := h.Do("POST", "/v1/fetch", tt.body)
		got.Problem(400, tt.slug)
		require.Regexp(t, "^"+tt.field+"(/0|/a)*$", servertest.Decode[client.Problem](got).Field, "%.80s", tt.body)
		require.Less(t, len(got.Body), 2000)
	}
	h.Do("POST", "/v1/fetch", servertest.FetchBody(strings.Repeat("x", 1<<21))).Problem(413, fault.SlugBodyTooLarge)
	h.Do("POST", "/v1/fetch?x=1", servertest.FetchBody("a")).Problem(400, fault.SlugInvalidQuery)
	h.Subscribe("a", "s")
	require.Len(t,
		servertest.Decode[servertest.Deliveries](h.Do("POST", "/v1/fetch", servertest.FetchBody("a/s/"+long))).Problems, 1,
		"a receipt of any length")
}

// TestFetchManyIsGranted checks sources one by one: a source that isn't granted is reported as a problem, and the other
// sources are fetched without waiting.
func TestFetchManyIsGranted(t *testing.T) {
	t.Parallel()
	var p servertest.People
	h := servertest.Start(t,
		servertest.Closed(t, &p, access.ChannelRule{Pattern: "open", Readers: []string{"anonymous"}}))
	p.Add(t, "all", `[{"actions":["subscribe","publish"]}]`)
	p.Add(t, "some", `[{"actions":["subscribe"],"channels":["a","b"],"subscribers":["s"]}]`)
	p.Add(t, "none", `[{"actions":["publish"]}]`)
	for _, at := range []string{"a/subscribers/s", "c/subscribers/s", "open/subscribers/anonymous"} {
		require.Equal(t, 201, h.Do("PUT", "/v1/channels/"+at, "", servertest.Bearer("all")).Status)
	}
	body := strings.Replace(servertest.FetchBody("a", "a/t", "c", "open/anonymous"), "{", `{"wait":"1m",`, 1)
	const denied = "403 not-granted"
	for credential, want := range map[string][]string{
		"some": {"a/t: " + denied, "c/s: " + denied}, // a key may read channels that a rule opens to all
		"none": {"a/s: " + denied, "a/t: " + denied, "c/s: " + denied},
		"all":  {"a/t: 404 subscriber-not-found"},
		"":     {"a/s: 401 credentials-missing", "a/t: 401 credentials-missing", "c/s: 401 credentials-missing"},
	} {
		var as []servertest.Header
		if credential != "" {
			as = append(as, servertest.Bearer(credential))
		}
		got := h.Do("POST", "/v1/fetch", body, as...)
		require.Equal(t, 200, got.Status, "%s", got.Body)
		require.Equal(t, want, problemsOf(servertest.Decode[servertest.Deliveries](got)), credential)
	}
	h.Do("POST", "/v1/fetch", servertest.FetchBody("a", "b")).Problem(401, fault.SlugNoCredential)
	got := servertest.Decode[servertest.Deliveries](h.Do("POST", "/v1/fetch", servertest.FetchBody("a\"<", "b}"),
		servertest.Bearer("none")))
	require.Equal(t, []string{`a"</s: ` + denied, "b}/s: " + denied}, problemsOf(got))

	h.As("some")
	held := h.Waiting(t.Context(), 1, "POST /v1/fetch "+strings.Replace(servertest.FetchBody("a"), "{", `{"wait":"1m",`,
		1))
	p.Revoke("some")
	(<-held).Problem(401, fault.SlugRevokedCredential)
}
