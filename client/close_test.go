package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/client"
)

func closed(channel string) string {
	return fmt.Sprintf("event: closed\ndata: {\"channel\":%q,\"subscriber\":\"s\",\"receiptHandle\":\"m9\"}\n\n", channel)
}

// A stream whose channels are closed ends without an error, after the end of each.
func TestStreamOfClosedChannels(t *testing.T) {
	t.Parallel()
	ends := func(s *streamer, from ...client.Source) (ends []string) {
		for a, err := range s.client(t).Stream(t.Context(), from, client.StreamOptions{}) {
			require.NoError(t, err)
			if a.Closed {
				ends = append(ends, a.Channel+" "+a.ReceiptHandle)
			}
		}
		return ends
	}
	s := newStreamer(t, streamOf(message("m1"), "id: m1\n"+end("closed")))
	require.Equal(t, []string{"a m1"}, ends(s, sourceA))
	s = newStreamer(t, streamOf(closed("b"), messageOf("a", "m1"), closed("a"), end("closed")))
	require.Equal(t, []string{"b m9", "a m9"}, ends(s, sourceA, sourceB))
	from := sourceA
	from.ReceiptHandle = "m1"
	require.Equal(t, []string{"a "}, ends(newStreamer(t, answer(http.StatusNoContent, nil)), from))
}

// Consume and ConsumeMany return when all channels are closed, and everything is handled and acknowledged, over streams
// and without them.
func TestConsumeEndsWithItsChannel(t *testing.T) {
	t.Parallel()
	for _, options := range [][]client.Option{nil, {client.WithoutStreams()}} {
		c := newClient(t, newWorld(), options...)
		for _, channel := range []string{"a", "b"} {
			_, err := c.Subscribe(t.Context(), channel, "s", client.Latest)
			require.NoError(t, err)
		}
		var got []string
		handle := func(ctx context.Context, from client.Source, m client.Message) error {
			got = append(got, from.Channel+string(m.Content))
			if len(got) == 1 {
				_, err := c.PublishWith(ctx, "a", []client.Draft{{Content: json.RawMessage("2")}},
					client.PublishOptions{Close: true})
				return err
			}
			_, err := c.CloseChannel(ctx, "b", nil)
			return err
		}
		_, err := c.Publish(t.Context(), "a", client.Draft{Content: json.RawMessage("1")})
		require.NoError(t, err)
		var ends []string
		err = c.ConsumeMany(t.Context(), client.ManyConsumer{From: []client.Source{sourceA, sourceB}, Handle: handle,
			Closed: func(s client.Source) { ends = append(ends, s.Channel) }})
		require.NoError(t, err)
		require.Equal(t, []string{"a1", "a2"}, got)
		require.ElementsMatch(t, []string{"a", "b"}, ends)
		d, err := c.Fetch(t.Context(), "a", "s", client.FetchOptions{})
		require.NoError(t, err)
		require.Empty(t, d.Messages, "all is acknowledged")
		require.True(t, d.Closed)
		n := 0
		require.NoError(t, c.Consume(t.Context(), client.Consumer{Channel: "a", Subscriber: "s", Closed: func() { n++ }}))
		require.Equal(t, 1, n)
		_, err = c.Publish(t.Context(), "a", client.Draft{Content: json.RawMessage("3")})
		require.ErrorIs(t, err, client.ErrChannelClosed)
	}
}

// A writer's publishes are on the channel once and in order, though answers are lost.
func TestWriter(t *testing.T) {
	t.Parallel()
	c := newClient(t, newWorld())
	first := c.NewWriter("log", "w", 1)
	for i := range 3 {
		_, err := first.Publish(t.Context(), client.Draft{Content: json.RawMessage(fmt.Sprint(i))})
		require.NoError(t, err)
	}
	second := c.NewWriter("log", "w", 2)
	_, err := second.Publish(t.Context(), client.Draft{Content: json.RawMessage("3")}, client.Draft{Content: json.RawMessage("4")})
	require.NoError(t, err)
	_, err = first.Publish(t.Context(), client.Draft{Content: json.RawMessage("9")})
	require.ErrorIs(t, err, client.ErrProducerFenced)
	require.NoError(t, second.Close(t.Context()))
	d, err := c.Describe(t.Context(), "log")
	require.NoError(t, err)
	require.EqualValues(t, 5, d.Clock)
	require.True(t, d.Closed)
}

// A publish whose answer was lost is repeated, with its sequence and its messages, before the next one.
func TestWriterRepeats(t *testing.T) {
	t.Parallel()
	failing := answer(http.StatusServiceUnavailable, nil)
	published := answer(http.StatusCreated, []client.Published{{Channel: "log", ID: "x", Clock: 1}})
	f := newFake(t, failing, published, published, answer(http.StatusOK, client.Closed{Channel: "log"}))
	w := f.client(t, client.WithRetry(client.RetryPolicy{MaxTries: 1})).NewWriter("log", "w", 7)
	_, err := w.Publish(t.Context(), client.Draft{Content: json.RawMessage("1")})
	require.Error(t, err)
	_, err = w.Publish(t.Context(), client.Draft{Content: json.RawMessage("2")})
	require.NoError(t, err)
	require.NoError(t, w.Close(t.Context()))
	var got []string
	for _, call := range f.got() {
		got = append(got, call.target+" "+call.body)
	}
	require.Equal(t, []string{
		`/v1/channels/log/messages?epoch=7&producer=w&sequence=0 [{"content":1}]`,
		`/v1/channels/log/messages?epoch=7&producer=w&sequence=0 [{"content":1}]`,
		`/v1/channels/log/messages?epoch=7&producer=w&sequence=1 [{"content":2}]`,
		`/v1/channels/log/close?epoch=7&producer=w&sequence=2 `,
	}, got)
}
