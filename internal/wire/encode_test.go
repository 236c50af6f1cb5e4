package wire_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/wire"
	"github.com/tidemark-dev/tidemark/test/servertest"
)

var (
	names    = rapid.StringMatching(`[0-9A-Za-z][0-9A-Za-z_.:-]{0,40}`)
	handles  = rapid.StringMatching(`[0-9A-Za-z_-]{0,60}`)
	contents = rapid.SampledFrom([]string{
		`null`, `0`, `"<&>"`, `{ "a" : [ 1, 2 ] }`, `[]`, `1.50e3`, "{\n}", `"\u00e9é"`, `9007199254740993`,
	})
	clocks = rapid.Map(rapid.OneOf(
		rapid.Int64Range(int64(clock.Min), int64(clock.Max)),
		rapid.SampledFrom([]int64{int64(clock.Min), -1, 0, int64(clock.Max)}),
	), func(n int64) clock.Clock { return clock.Clock(n) })
	times = rapid.Map(rapid.Int64Range(1, 1<<42), func(ms int64) time.Time { return time.UnixMilli(ms).UTC() })
)

// decodes checks that data is JSON that encoding/json decodes to want, with no member that want doesn't have.
func decodes[T any](t require.TestingT, data []byte, want T) {
	var plain any
	require.NoError(t, json.Unmarshal(data, &plain), "%s", data)
	var got T
	require.NoError(t, json.Unmarshal(data, &got), "%s", data)
	require.Equal(t, want, got, "%s", data)
}

func TestPublishedAppendJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := client.Published{
			Channel: names.Draw(t, "channel"), ID: names.Draw(t, "id"), Clock: clocks.Draw(t, "clock"),
			Duplicate: rapid.Bool().Draw(t, "duplicate"), Differs: rapid.Bool().Draw(t, "differs"),
		}
		p := channel.Published{ID: want.ID, Clock: want.Clock, Duplicate: want.Duplicate, Differs: want.Differs}
		decodes(t, wire.AppendPublishedJSON(nil, want.Channel, &p), want)

		byReflection, err := json.Marshal(want)
		require.NoError(t, err)
		require.Equal(t, string(byReflection), string(wire.AppendPublishedJSON(nil, want.Channel, &p)))
	})
}

// drawDelivery returns a delivery, and what clients receive.
func drawDelivery(t *rapid.T) (d channel.Delivery, want client.Delivery) {
	want = client.Delivery{
		Messages: []client.Message{}, ReceiptHandle: handles.Draw(t, "handle"),
		More: rapid.Bool().Draw(t, "more"), Expired: rapid.Uint64().Draw(t, "expired"),
		Purged: rapid.Uint64().Draw(t, "purged"), Damaged: rapid.Uint64().Draw(t, "damaged"),
		Lost: rapid.Bool().Draw(t, "lost"),
	}
	d = channel.Delivery{Receipt: want.ReceiptHandle, More: want.More, Expired: want.Expired, Purged: want.Purged,
		Damaged: want.Damaged, Lost: want.Lost}
	for range rapid.IntRange(0, 4).Draw(t, "messages") {
		m := client.Message{ID: names.Draw(t, "id"), Clock: clocks.Draw(t, "clock"),
			Content: json.RawMessage(contents.Draw(t, "content"))}
		if rapid.Bool().Draw(t, "dated") {
			m.PublishedAt = times.Draw(t, "at")
		}
		content := []byte(m.Content)
		if rapid.Bool().Draw(t, "typed") {
			m.ContentType = rapid.SampledFrom([]string{"text/plain", "a/b; c='%~"}).Draw(t, "type")
			content = rapid.SliceOfN(rapid.Byte(), 0, 9).Draw(t, "bytes")
			m.Content, _ = json.Marshal(content) // []byte can be encoded: as base64
		}
		want.Messages = append(want.Messages, m)
		d.Messages = append(d.Messages, channel.Message{ID: m.ID, Clock: m.Clock, ContentType: m.ContentType,
			Content: content, PublishedAt: m.PublishedAt, Trace: "unseen"})
	}
	return d, want
}

func TestDeliveryAppendJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d, want := drawDelivery(t)
		data := wire.AppendDelivery([]byte{}, &d)
		decodes(t, data, want)
		require.LessOrEqual(t, len(data), wire.DeliverySize(&d))
	})
}

func TestDeliveriesAppendJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := servertest.Deliveries{Deliveries: []client.SourceDelivery{}, Problems: []wire.SourceProblem{}}
		var all wire.Deliveries
		for range rapid.IntRange(0, 3).Draw(t, "deliveries") {
			d, wanted := drawDelivery(t)
			source := client.SourceDelivery{Channel: names.Draw(t, "channel"),
				Subscriber: names.Draw(t, "subscriber"), Delivery: wanted}
			want.Deliveries = append(want.Deliveries, source)
			all.Deliveries = append(all.Deliveries, wire.SourceDelivery{Channel: source.Channel,
				Subscriber: source.Subscriber, Delivery: d})
		}
		for range rapid.IntRange(0, 3).Draw(t, "plain problems") {
			problem := wire.NewProblem(fault.SlugNoSubscriber, 404, names.Draw(t, "detail"))
			problem.Field, problem.RequestID, problem.RetryAfter = "/from/255/receiptHandle", ulid.Make().String(), 1
			want.Problems = append(want.Problems, wire.SourceProblem{
				Channel: names.Draw(t, "channel"), Subscriber: names.Draw(t, "subscriber"), Problem: *problem,
			})
		}
		all.Problems = want.Problems
		require.LessOrEqual(t, len(all.AppendJSON(nil)), all.JSONSize())
		for range rapid.IntRange(0, 3).Draw(t, "problems") { // what is refused can be any text
			want.Problems = append(want.Problems, wire.SourceProblem{
				Channel: rapid.String().Draw(t, "channel"), Subscriber: rapid.String().Draw(t, "subscriber"),
				Problem: *wire.NewProblem(fault.SlugNoSubscriber, 404, rapid.String().Draw(t, "detail")),
			})
		}
		all.Problems = want.Problems
		decodes(t, all.AppendJSON(nil), want)
	})
}

func TestDeliveryAsPublished(t *testing.T) {
	t.Parallel()
	d := channel.Delivery{
		Messages: []channel.Message{{
			ID: "m1", Clock: clock.Min, Content: json.RawMessage(`{ "text" : "<hello> & \u0041" }`),
			PublishedAt: time.Date(2026, 2, 3, 5, 5, 6, 7e6, time.FixedZone("", 3600)),
		}},
		Receipt: "abc", More: true, Expired: 3,
	}
	require.Equal(t, `{"messages":[{"id":"m1","clock":-9007199254740991,"content":{ "text" : "<hello> & \u0041" },`+
		`"publishedAt":"2026-02-03T04:05:06.007Z"}],"receiptHandle":"abc","more":true,"expired":3}`,
		string(wire.AppendDelivery(nil, &d)))

	empty := channel.Delivery{}
	require.Equal(t, `{"messages":[],"more":false,"expired":0}`, string(wire.AppendDelivery(nil, &empty)))
}

func TestOldAppendJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		published := wire.OldPublished{ChannelID: names.Draw(t, "channel"), MessageID: names.Draw(t, "id")}
		decodes(t, published.AppendJSON(nil), published)

		d := wire.OldDelivery{
			ChannelID: names.Draw(t, "channel"), Messages: []wire.OldMessage{},
			AckHandle: handles.Draw(t, "handle"), MoreMessages: rapid.Bool().Draw(t, "more"),
		}
		for range rapid.IntRange(0, 3).Draw(t, "messages") {
			d.Messages = append(d.Messages, wire.OldMessage{
				MessageID: names.Draw(t, "id"), Content: json.RawMessage(contents.Draw(t, "content")),
			})
		}
		decodes(t, d.AppendJSON(nil), d)
	})
}

func TestProblemSlug(t *testing.T) {
	t.Parallel()
	p := wire.NewProblem(fault.SlugNoChannel, 404, "detail")
	require.Equal(t, fault.SlugNoChannel, p.Slug())
	require.Equal(t, "Channel not found", p.Title)
	require.Empty(t, (&client.Problem{Type: "about:blank"}).Slug())
}
