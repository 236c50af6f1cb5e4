package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

// delivered returns the delivery of a channel: messages of these IDs, and a receipt that names the last.
func delivered(channel string, ids ...string) client.SourceDelivery {
	d := client.SourceDelivery{Channel: channel, Subscriber: "s"}
	for i, id := range ids {
		d.Messages = append(d.Messages, client.Message{ID: id, Clock: clock.Clock(i + 1), Content: json.RawMessage("1")})
		d.ReceiptHandle = "after-" + id
	}
	return d
}

func failed(channel string, status int, slug fault.Slug) wire.SourceProblem {
	return wire.SourceProblem{Channel: channel, Subscriber: "s", Problem: *wire.NewProblem(slug, status, "no")}
}

func deliveries(all ...any) http.HandlerFunc {
	d := struct {
		Deliveries []client.SourceDelivery `json:"deliveries"`
		Problems   []wire.SourceProblem    `json:"problems"`
	}{[]client.SourceDelivery{}, []wire.SourceProblem{}}
	for _, want := range all {
		switch source := want.(type) {
		case client.SourceDelivery:
			d.Deliveries = append(d.Deliveries, source)
		case wire.SourceProblem:
			d.Problems = append(d.Problems, source)
		}
	}
	return answer(200, d)
}

var sources = []client.Source{{Channel: "a", Subscriber: "s"}, {Channel: "b", Subscriber: "s"}}

func TestFetchMany(t *testing.T) {
	t.Parallel()
	f := newFake(t, deliveries(delivered("a", "m1"), failed("b", 404, fault.SlugNoSubscriber)),
		problem(400, fault.SlugInvalidSources, 0))
	c := f.client(t)
	from := []client.Source{sources[0], {Channel: "b", Subscriber: "s", ReceiptHandle: "r"}}
	d, err := c.FetchMany(t.Context(), from, client.FetchOptions{Max: 7, Wait: 90 * time.Second})
	require.NoError(t, err)
	require.Equal(t, []client.SourceDelivery{delivered("a", "m1")}, d.Found)
	require.Len(t, d.Problems, 1)
	require.ErrorIs(t, d.Problems[0], client.ErrNoSubscriber)
	require.EqualError(t, d.Problems[0], "s of b: no (404 subscriber-not-found)")
	require.Equal(t, "/v1/fetch", f.got()[0].target)
	require.JSONEq(t,
		`{"from":[{"channel":"a","subscriber":"s"},{"channel":"b","subscriber":"s","receiptHandle":"r"}],"max":7,"wait":"1m30s"}`,
		f.got()[0].body)
	_, err = c.FetchMany(t.Context(), nil, client.FetchOptions{})
	require.ErrorIs(t, err, client.ErrInvalidSources)
}

// TestConsumeMany plays answers, and checks the requests that must follow: the receipts of each, by channel, and "-"
// for an omitted channel.
func TestConsumeMany(t *testing.T) {
	t.Parallel()
	errHandle := errors.New("handling failed")
	for name, tt := range map[string]struct {
		answers  []http.HandlerFunc
		handle   map[string]error // of messages
		tolerant bool             // problems end nothing
		want     error
		handled  string
		receipts []string // of each request
	}{
		"receipts are sent with the next request": {
			answers: []http.HandlerFunc{
				deliveries(delivered("a", "a1", "a2"), delivered("b", "b1")), deliveries(delivered("b", "b2")),
				deliveries(delivered("a", "stop")),
			},
			handle: map[string]error{"stop": client.ErrStop}, handled: "a1 a2 b1 b2 stop",
			receipts: []string{"a= b=", "a=after-a2 b=after-b1", "a= b=after-b2", "ack a=after-stop"},
		},
		"what was handled before a failure is acknowledged": {
			answers: []http.HandlerFunc{
				deliveries(delivered("a", "a1"), delivered("b", "b1", "bad")),
				answer(200, delivered("b", "b1").Delivery), answer(204, nil), deliveries(),
			},
			handle: map[string]error{"bad": errHandle}, want: errHandle, handled: "a1 b1 bad",
			receipts: []string{"a= b=", "fetch 1", "ack b=after-b1", "ack a=after-a1"},
		},
		"a lost receipt is left out": {
			answers: []http.HandlerFunc{
				deliveries(delivered("a", "a1")), deliveries(failed("a", 409, fault.SlugReceiptEpoch)),
				deliveries(delivered("b", "stop")),
			},
			handle: map[string]error{"stop": client.ErrStop}, handled: "a1 stop",
			receipts: []string{"a= b=", "a=after-a1 b=", "a= b=", "ack b=after-stop"},
		},
		"a source that can't be served is tried again, with its receipt": {
			answers: []http.HandlerFunc{
				deliveries(delivered("a", "a1")), deliveries(failed("a", 503, fault.SlugUnavailable),
					delivered("b", "b1")), deliveries(delivered("b", "stop")),
			},
			handle: map[string]error{"stop": client.ErrStop}, handled: "a1 b1 stop",
			receipts: []string{"a= b=", "a=after-a1 b=", "a=after-a1 b=after-b1", "ack b=after-stop"},
		},
		"a problem ends it, and the others are acknowledged": {
			answers: []http.HandlerFunc{deliveries(delivered("a", "a1"), failed("b", 403, fault.SlugNotGranted)),
				deliveries()},
			want: client.ErrNotGranted, handled: "a1",
			receipts: []string{"a= b=", "ack a=after-a1"},
		},
		"a problem that is tolerated": {
			answers: []http.HandlerFunc{
				deliveries(delivered("a", "a1"), failed("b", 404, fault.SlugNoSubscriber)),
				deliveries(failed("a", 404, fault.SlugNoSubscriber)),
			},
			tolerant: true, want: client.ErrNoSubscriber, handled: "a1",
			receipts: []string{"a= b=", "a=after-a1 -"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, append(tt.answers, answer(204, nil))...)
			var handled []string
			consumer := client.ManyConsumer{From: sources, Handle: func(_ context.Context, from client.Source,
				m client.Message) error {
				require.Equal(t, "s", from.Subscriber)
				handled = append(handled, m.ID)
				return tt.handle[m.ID]
			}}
			if tt.tolerant {
				consumer.Problem = func(*client.SourceError) error { return nil }
			}
			err := f.client(t).ConsumeMany(t.Context(), consumer)
			require.ErrorIs(t, err, tt.want)
			require.Equal(t, tt.handled, strings.Join(handled, " "))
			var receipts []string
			for _, call := range f.got() {
				receipts = append(receipts, receiptsOf(t, call))
			}
			require.Equal(t, tt.receipts, receipts)
			require.Empty(t, sources[0].ReceiptHandle, "the caller's list isn't changed")
		})
	}
}

// receiptsOf returns the receipts in a request.
func receiptsOf(t *testing.T, c call) string {
	t.Helper()
	switch {
	case strings.HasSuffix(c.target, "/messages?max=1"):
		return "fetch 1"
	case strings.HasSuffix(c.target, "/ack"):
		var r wire.AckRequest
		require.NoError(t, json.Unmarshal([]byte(c.body), &r))
		return "ack " + strings.Split(c.target, "/")[3] + "=" + r.ReceiptHandle
	}
	var r wire.FetchRequest
	require.NoError(t, json.Unmarshal([]byte(c.body), &r))
	texts := []string{"-", "-"}
	for _, s := range r.From {
		texts[s.Channel[0]-'a'] = s.Channel + "=" + s.ReceiptHandle
	}
	return strings.Join(texts, " ")
}

// TestConsumeManyEnds with its context, within the grace of the last acknowledgement.
func TestConsumeManyEnds(t *testing.T) {
	t.Parallel()
	for _, grace := range []time.Duration{0, time.Minute} {
		ctx, cancel := context.WithCancel(t.Context())
		f := newFake(t, deliveries(delivered("a", "a1")), func(_ http.ResponseWriter, r *http.Request) {
			cancel()
			<-r.Context().Done()
		}, deliveries())
		err := f.client(t).ConsumeMany(ctx, client.ManyConsumer{
			From: sources, AckGrace: grace, Handle: func(context.Context, client.Source,
				client.Message) error {
				return nil
			},
		})
		require.ErrorIs(t, err, context.Canceled)
		got := f.got()
		require.Contains(t, got[1].body, `"wait":"20s"`)
		if grace == 0 {
			require.Len(t, got, 2)
			continue
		}
		require.Len(t, got, 3)
		require.Equal(t, "ack a=after-a1", receiptsOf(t, got[2]))
	}
}

func ExampleClient_ConsumeMany() {
	ctx := context.Background()
	c := connect()
	defer c.Close()

	var from []client.Source
	for _, channel := range []string{"lobby", "news"} {
		if _, err := c.Subscribe(ctx, channel, "ann", client.Latest); err != nil {
			panic(err)
		}
		from = append(from, client.Source{Channel: channel, Subscriber: "ann"})
	}
	if _, err := c.Publish(ctx, "news", client.Draft{Content: []byte(`"first"`)}); err != nil {
		panic(err)
	}
	err := c.ConsumeMany(ctx, client.ManyConsumer{
		From: from,
		Handle: func(_ context.Context, from client.Source, m client.Message) error {
			fmt.Printf("%s: %s\n", from.Channel, m.Content)
			return client.ErrStop
		},
		Problem: func(p *client.SourceError) error { // such as a channel that is followed no more
			fmt.Println("without", p)
			return nil
		},
	})
	if err != nil {
		panic(err)
	}
	// Output:
	// news: "first"
}
