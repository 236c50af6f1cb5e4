package client_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/client/records"
	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

func TestNew(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"localhost:8080":           "doesn't start with http:// or https://",
		"":                         "doesn't start with http:// or https://",
		"http://":                  "has no host",
		"http://h?a=b":             "has a query or a fragment",
		"http://h#a":               "has a query or a fragment",
		"http://me:secret@h:x":     "can't be parsed",
		"redis://me:secret@h:6379": "doesn't start with http:// or https://",
	} {
		_, err := client.New(url)
		require.ErrorContains(t, err, want, "%q", url)
		require.NotContains(t, err.Error(), "secret")
	}
}

// TestRequests compares the request of each call with the API.
func TestRequests(t *testing.T) {
	t.Parallel()
	ctx, at := t.Context(), "/v1/channels/c"
	for name, test := range map[string]struct {
		do   func(*client.Client) (any, error)
		want call
	}{
		"publish": {func(c *client.Client) (any, error) {
			return c.Publish(ctx, "c", client.Draft{ID: "i", Content: []byte(" {\"a\" : \"<é>\"}\n")})
		}, call{"POST", at + "/messages", "{\"id\":\"i\",\"content\": {\"a\" : \"<é>\"}\n}", nil}},
		"subscribe": {func(c *client.Client) (any, error) { return c.Subscribe(ctx, "c", "s", client.Latest) },
			call{"PUT", at + "/subscribers/s", `{}`, nil}},
		"subscribe from the start": {func(c *client.Client) (any, error) {
			return c.Subscribe(ctx, "c", "s",
				client.Earliest)
		},
			call{"PUT", at + "/subscribers/s", `{"from":"earliest"}`, nil}},
		"subscribe from a clock": {func(c *client.Client) (any, error) {
			return c.Subscribe(ctx, "c", "s",
				client.After(clock.Min))
		},
			call{"PUT", at + "/subscribers/s", `{"from":-9007199254740991}`, nil}},
		"unsubscribe": {func(c *client.Client) (any, error) { return nil, c.Unsubscribe(ctx, "c", "s") },
			call{"DELETE", at + "/subscribers/s", "", nil}},
		"fetch": {func(c *client.Client) (any, error) { return c.Fetch(ctx, "c", "s", client.FetchOptions{}) },
			call{"GET", at + "/subscribers/s/messages", "", nil}},
		"fetch with options": {func(c *client.Client) (any, error) {
			return c.Fetch(ctx, "c", "s", client.FetchOptions{Max: 3, Wait: 90 * time.Second})
		}, call{"GET", at + "/subscribers/s/messages?max=3&wait=1m30s", "", nil}},
		"ack": {func(c *client.Client) (any, error) { return nil, c.Ack(ctx, "c", "s", "r") },
			call{"POST", at + "/subscribers/s/ack", `{"receiptHandle":"r"}`, nil}},
		"next": {func(c *client.Client) (any, error) {
			return c.Next(ctx, "c", "s", "r", client.FetchOptions{Max: 3, Wait: time.Second})
		}, call{"POST", at + "/subscribers/s/next", `{"receiptHandle":"r","max":3,"wait":"1s"}`, nil}},
		"describe": {func(c *client.Client) (any, error) { return c.Describe(ctx, "c") }, call{"GET", at, "", nil}},
		"info":     {func(c *client.Client) (any, error) { return c.Info(ctx) }, call{"GET", "/v1/info", "", nil}},
		"odd names stay names": {func(c *client.Client) (any, error) {
			return nil,
				c.Unsubscribe(ctx, "a/b?c", "ü%2F#")
		},
			call{"DELETE", "/v1/channels/a%2Fb%3Fc/subscribers/%C3%BC%252F%23", "", nil}},
	} {
		f := newFake(t, answer(http.StatusOK, `{}`))
		_, err := test.do(f.client(t, client.WithUserAgent("tester")))
		require.NoError(t, err, name)
		got := f.got()
		require.Len(t, got, 1)
		require.Equal(t, "tester", got[0].header.Get("User-Agent"))
		if test.want.body != "" {
			require.Equal(t, wire.MediaJSON, got[0].header.Get("Content-Type"), name)
		}
		got[0].header = nil
		require.Equal(t, test.want, got[0], name)
	}
}

func TestBaseURLWithPath(t *testing.T) {
	t.Parallel()
	f := newFake(t, answer(http.StatusOK, `{}`))
	_, err := newClient(t, f.URL+"/tide/").Info(t.Context())
	require.NoError(t, err)
	require.Equal(t, "/tide/v1/info", f.got()[0].target)
}

func TestBatch(t *testing.T) {
	t.Parallel()
	f := newFake(t,
		answer(http.StatusCreated,
			`[{"channel":"c","id":"a","clock":1,"duplicate":true},{"channel":"c","id":"x","clock":2,"duplicate":true}]`))
	drafts := []client.Draft{{ID: "a", Content: []byte("1")}, {Content: []byte("2")}}
	published, err := f.client(t).PublishBatch(t.Context(), "c", drafts)
	require.NoError(t, err)
	require.Regexp(t, `^\[{"id":"a","content":1},{"id":"[0-9A-Z]{26}","content":2}\]$`, f.got()[0].body)
	require.Empty(t, drafts[1].ID, "the caller's drafts are left alone")
	require.True(t, published[0].Duplicate, "the caller's ID")
	require.False(t, published[1].Duplicate, "the client's own ID")

	_, err = f.client(t).PublishBatch(t.Context(), "c", drafts[:1])
	require.ErrorContains(t, err, "the answer has 2 messages instead of 1")
}

func TestBadCallsAreNotSent(t *testing.T) {
	t.Parallel()
	f := newFake(t, answer(http.StatusOK, `{}`))
	c := f.client(t)
	for _, content := range []string{"", "text", `{"a":1`, `1,"id":"x"`} {
		_, err := c.Publish(t.Context(), "c", client.Draft{Content: []byte(content)})
		require.ErrorIs(t, err, client.ErrInvalidContent, "%q", content)
	}
	for _, name := range []string{"", ".", ".."} {
		_, err := c.Describe(t.Context(), name)
		require.ErrorIs(t, err, client.ErrInvalidChannel)
		require.ErrorIs(t, c.Unsubscribe(t.Context(), "c", name), client.ErrInvalidSubscriber)
	}
	require.Empty(t, f.got())
}

func TestContentStaysByteForByte(t *testing.T) {
	t.Parallel()
	const content = "{ \"a\":\t1.00,\"b\" : \"\\u003c<é\" }"
	f := newFake(t, answer(http.StatusOK, `{"messages":[{"id":"i","clock":-5,"content":`+content+
		`,"publishedAt":"2026-01-02T03:04:05.678Z"}],"receiptHandle":"r","more":true,"expired":7}`))
	d, err := f.client(t).Fetch(t.Context(), "c", "s", client.FetchOptions{})
	require.NoError(t, err)
	require.Equal(t, client.Delivery{
		Messages: []client.Message{{
			ID: "i", Clock: -5, Content: []byte(content),
			PublishedAt: time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC),
		}},
		ReceiptHandle: "r", More: true, Expired: 7,
	}, d)
}

func TestAnswerOfSomethingElse(t *testing.T) {
	t.Parallel()
	f := newFake(t, answer(http.StatusOK, "<html>hello</html>"))
	_, err := f.client(t).Info(t.Context())
	require.ErrorContains(t, err, "the answer (status 200) isn't that of a Tidemark service")
	require.Len(t, f.got(), 1)
}

func TestErrors(t *testing.T) {
	t.Parallel()
	f := newFake(t, problem(404, fault.SlugNoSubscriber, 0))
	_, err := f.client(t).Fetch(t.Context(), "c", "s", client.FetchOptions{})
	require.EqualError(t, err, "fetch c/s: details of subscriber-not-found (404 subscriber-not-found)")
	require.ErrorIs(t, err, client.ErrNoSubscriber)
	require.NotErrorIs(t, err, client.ErrNoChannel)
	var e *client.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, 404, e.Status)
	require.Equal(t, "Subscriber not found", e.Problem.Title)

	f = newFake(t, answer(http.StatusForbidden, "<html>"))
	_, err = f.client(t).Info(t.Context())
	require.EqualError(t, err, "get the service's info: status 403 Forbidden")
	require.ErrorAs(t, err, &e)
	require.Zero(t, e.Problem)
	require.NotErrorIs(t, err, &client.Error{}, "no slug is no name")

	p := wire.NewProblem(fault.SlugMessageTooLarge, 413, "too many bytes")
	p.Field = "/3/content"
	require.EqualError(t, &client.Error{Status: 413, Problem: *p}, "/3/content: too many bytes (413 message-too-large)")
}

func TestRetryAfterForms(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]time.Duration{
		"7": 7 * time.Second, "": 0, "soon": 0, "-1": 0, "99999999999": 0, "Mon, 02 Jan 2006 15:04:05 GMT": 0,
	} {
		f := newFake(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", header)
			w.WriteHeader(http.StatusServiceUnavailable)
		})
		_, err := f.client(t, client.WithRetry(client.RetryPolicy{MaxTries: 1})).Info(t.Context())
		var e *client.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, want, e.RetryAfter, "%q", header)
	}
}

// TestEverySlugHasASentinel fails if the API has an error without a variable for errors.Is.
func TestEverySlugHasASentinel(t *testing.T) {
	t.Parallel()
	sentinels := []*client.Error{
		client.ErrInvalidChannel, client.ErrInvalidSubscriber, client.ErrInvalidMessageID, client.ErrInvalidContent,
		client.ErrInvalidBody,
		client.ErrInvalidBatch, client.ErrInvalidMax, client.ErrInvalidWait, client.ErrInvalidFrom, client.ErrInvalidPosition,
		client.ErrOtherLife,
		client.ErrInvalidPolicy,
		client.ErrMessageTooLarge, client.ErrBatchTooLarge, client.ErrBodyTooLarge, client.ErrNoChannel,
		client.ErrNoSubscriber,
		client.ErrReceiptMalformed, client.ErrReceiptForged, client.ErrReceiptChannel, client.ErrReceiptSubscriber,
		client.ErrReceiptEpoch, client.ErrReceiptAhead, client.ErrReceiptSuperseded, client.ErrStorageFull,
		client.ErrUnavailable, client.ErrNotReplicated, client.ErrDraining, client.ErrOverloaded, client.ErrInternal,
		client.ErrInvalidTicket, client.ErrInvalidQueue, client.ErrNoTicket, client.ErrNoQueue, client.ErrTicketExists,
		client.ErrNoMatch,
		client.ErrTicketMatched, client.ErrTicketTooLarge, client.ErrQueueFull, client.ErrQueueConfigured,
		client.ErrQueueInUse,
		client.ErrNoMatchmaking, client.ErrUnknownHost, client.ErrReserved, client.ErrTooManyQueues,
		client.ErrNoCredential, client.ErrInvalidCredential, client.ErrExpiredCredential, client.ErrRevokedCredential,
		client.ErrNotGranted,
		client.ErrKeysUnavailable, client.ErrRateLimited, client.ErrTooManyWaits, client.ErrManySubscribers,
		client.ErrNoKey, client.ErrInvalidKey,
		client.ErrInvalidRevocation, client.ErrKeyConfigured, client.ErrTooManyKeys, client.ErrManyRevocations,
		client.ErrConfiguration,
		client.ErrSchema, client.ErrInvalidSources,
		client.ErrChannelClosed, client.ErrChannelExists, client.ErrContentType, client.ErrOtherContentType, client.ErrInvalidProperties,
		client.ErrInvalidProducer, client.ErrProducerFenced, client.ErrProducerGap, client.ErrProducerStart,
		client.ErrManyProducers, client.ErrOrderConflict,
	}
	sentinels = append(sentinels, records.Errors()...)
	// No request of the client can receive these.
	have := []fault.Slug{
		fault.SlugInvalidQuery, fault.SlugMethod, fault.SlugCrossOrigin, fault.SlugInvalidRequest,
		fault.SlugTokenInQuery, fault.SlugQueueDirector, fault.SlugInvalidBackfill, fault.SlugNoBackfill,
		fault.SlugBackfillExpired, fault.SlugBackfillTooLarge, fault.SlugManyBackfills,
		fault.SlugInvalidHeader, fault.SlugOffsetGone, fault.SlugNotServed,
	}
	for _, s := range sentinels {
		have = append(have, s.Slug())
		require.NotEmpty(t, s.Error())
	}
	var listed []fault.Slug
	for _, e := range fault.List() {
		listed = append(listed, e.Slug)
	}
	require.ElementsMatch(t, listed, have)
}
