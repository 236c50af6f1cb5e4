package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

// recorder is a service that keeps the body of the last request. Its answers have only a status.
type recorder struct {
	client *client.Client
	body   []byte
}

func newRecorder(t *testing.T) *recorder {
	t.Helper()
	r := &recorder{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		r.body, _ = io.ReadAll(request.Body)
		w.WriteHeader(http.StatusTeapot)
	}))
	t.Cleanup(s.Close)
	c, err := client.New(s.URL)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	r.client = c
	return r
}

func TestDraftsAreDecodedAsSent(t *testing.T) {
	t.Parallel()
	r := newRecorder(t)
	contents := rapid.SampledFrom([]string{
		`null`, `0`, `"<&>"`, `{ "a" : [ 1, 2 ] }`, `[]`, `1.50e3`, "{\n}", `"\u00e9é"`, `9007199254740993`,
	})
	rapid.Check(t, func(t *rapid.T) {
		drafts := make([]client.Draft, rapid.IntRange(1, 4).Draw(t, "drafts"))
		for i := range drafts {
			drafts[i] = client.Draft{ID: rapid.StringN(1, -1, -1).Draw(t, "id"),
				Content: json.RawMessage(contents.Draw(t, "content"))}
		}
		_, err := r.client.PublishBatch(context.Background(), "c", drafts)
		require.Error(t, err)
		got, batch, err := wire.DecodeDrafts(r.body)
		require.NoError(t, err)
		require.True(t, batch)
		require.Equal(t, asDecoded(drafts), got)

		_, err = r.client.Publish(context.Background(), "c", drafts[0])
		require.Error(t, err)
		got, batch, err = wire.DecodeDrafts(r.body)
		require.NoError(t, err)
		require.False(t, batch)
		require.Equal(t, asDecoded(drafts[:1]), got)
	})
}

func asDecoded(drafts []client.Draft) (all []channel.Draft) {
	for _, d := range drafts {
		all = append(all, channel.Draft{ID: d.ID, Content: d.Content})
	}
	return all
}

func TestDraftOfInvalidUTF8IsStillJSON(t *testing.T) {
	t.Parallel()
	r := newRecorder(t)
	_, err := r.client.Publish(t.Context(), "c", client.Draft{ID: "a\xffb", Content: json.RawMessage(`1`)})
	require.Error(t, err)
	require.Equal(t, "{\"id\":\"a\uFFFDb\",\"content\":1}", string(r.body))
}

// TestRequestsAreDecodedAsSent shows that the service understands each body.
func TestRequestsAreDecodedAsSent(t *testing.T) {
	t.Parallel()
	r, ctx := newRecorder(t), t.Context()

	for from, want := range map[client.From]channel.From{
		client.Latest: {}, client.Earliest: {Start: channel.StartEarliest},
		client.After(clock.Min): {Start: channel.StartAt, Clock: clock.Min}, client.After(0): {Start: channel.StartAt},
	} {
		_, err := r.client.Subscribe(ctx, "c", "s", from)
		require.Error(t, err)
		got, err := wire.DecodeSubscribe(r.body)
		require.NoError(t, err)
		require.Equal(t, want, channel.From(got.From))
	}
	require.Error(t, r.client.Ack(ctx, "c", "s", "receipt"))
	ack, err := wire.DecodeAck(r.body)
	require.NoError(t, err)
	require.Equal(t, wire.AckRequest{ReceiptHandle: "receipt"}, ack)

	_, err = r.client.Next(ctx, "c", "s", "receipt", client.FetchOptions{Max: 7, Wait: 90 * time.Second})
	require.Error(t, err)
	next, err := wire.DecodeNext(r.body)
	require.NoError(t, err)
	require.Equal(t, wire.NextRequest{ReceiptHandle: "receipt", Max: 7, Wait: wire.Wait(90 * time.Second)}, next)

	sources := []client.Source{{Channel: "c", Subscriber: "s", ReceiptHandle: "receipt"}, {Channel: "d", Subscriber: "s"}}
	_, err = r.client.FetchMany(ctx, sources, client.FetchOptions{Max: 7, Wait: time.Millisecond})
	require.Error(t, err)
	fetch, err := wire.DecodeFetch(r.body)
	require.NoError(t, err)
	require.Equal(t, wire.FetchRequest{From: sources, Max: 7, Wait: wire.Wait(time.Millisecond)}, fetch)

	_, err = r.client.Purge(ctx, "c", client.After(3), "epoch")
	require.Error(t, err)
	purge, err := wire.DecodePurge(r.body)
	require.NoError(t, err)
	require.Equal(t, wire.PurgeRequest{Through: wire.From{Start: channel.StartAt, Clock: 3}, Epoch: "epoch"}, purge)

	at := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for to, want := range map[client.To]wire.To{
		{From: client.Earliest}: {From: wire.From{Start: channel.StartEarliest}}, client.ToTime(at): {Time: at},
	} {
		_, err = r.client.Seek(ctx, "c", "s", to)
		require.Error(t, err)
		seek, err := wire.DecodeSeek(r.body)
		require.NoError(t, err)
		require.Equal(t, want, seek.To)
	}
}

// TestTicketsAreDecodedAsSent: tickets are declared by the client and by the service, which has them from matchmaking.
func TestTicketsAreDecodedAsSent(t *testing.T) {
	t.Parallel()
	extension := map[string]json.RawMessage{"a": json.RawMessage(`{"b":1}`)}
	spec := matchmaking.Spec{
		SearchFields: matchmaking.SearchFields{Tags: []string{"tag"}, StringArgs: map[string]string{"k": "v"},
			DoubleArgs: matchmaking.Doubles{"infinite": math.Inf(-1), "plain": 1.5}},
		Criteria:   []matchmaking.Criterion{{Name: "skill", MinValue: 1, MaxValue: 2}},
		Statistics: []matchmaking.Statistic{{Name: "skill", Value: 1.5}},
		NumTeams:   2, TeamSize: 3, Players: 4, Extensions: extension, PersistentField: extension,
	}
	at := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	service := wire.Ticket{
		CreatedTicket: client.CreatedTicket{ID: "t", Queue: "q", Status: string(matchmaking.MatchFound), CreateTime: at,
			Channel: "ticket.t", Subscriber: "player", ChannelURL: "/c", MessagesURL: "/m", Token: "token"},
		ExpireTime: at, TTLMillis: 1, LifeMillis: 2, Spec: spec, MatchID: "m",
		Assignment: &matchmaking.Assignment{TicketID: "t", MatchID: "m", Queue: "q", Connection: "here", Team: 1,
			Teammates: []string{"u"}, Opponents: []string{"v"}, Extensions: extension},
	}
	text, err := json.Marshal(service)
	require.NoError(t, err)
	var got client.Ticket
	strict := json.NewDecoder(bytes.NewReader(text))
	strict.DisallowUnknownFields()
	require.NoError(t, strict.Decode(&got))
	again, err := json.Marshal(got)
	require.NoError(t, err)
	require.JSONEq(t, string(text), string(again))
	require.Equal(t, client.TicketMatchFound, got.Status)

	r := newRecorder(t)
	_, err = r.client.CreateTicket(t.Context(), client.NewTicket{Queue: "q", ID: "t", TicketSpec: got.TicketSpec,
		TTL: 5 * time.Minute})
	require.Error(t, err)
	sent, err := wire.DecodeNewTicket(r.body)
	require.NoError(t, err)
	require.Equal(t, wire.NewTicket{Queue: "q", ID: "t", TTL: wire.TTL(5 * time.Minute), Spec: spec}, sent)
}

// TestProbesOfAnotherProgram: what isn't a Tidemark service is neither ready nor alive, whatever its status.
func TestProbesOfAnotherProgram(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"<html>sign in</html>", "{}", ""} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, body)
		}))
		t.Cleanup(s.Close)
		c, err := client.New(s.URL)
		require.NoError(t, err)
		t.Cleanup(c.Close)
		require.Error(t, c.Ready(t.Context()), body)
		require.Error(t, c.Live(t.Context()), body)
	}
}
