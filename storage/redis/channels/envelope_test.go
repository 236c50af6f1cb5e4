package channels

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/receipt"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
)

// hostile are contents that look like parts of an envelope.
var hostile = []string{
	`1`, `""`, `null`, `{}`, `[]`, ` {"a": 1} `, "\n1\n",
	`{"id":"x","content":1,"at":5}`, `{"a":1,"at":5}`, `[1,"at"]`, `{"b":"","at":1}`,
	`"\",\"at\":7}"`, `",\"content\":"`, `"},\"at\":7}"`, `{"content":{"content":",\"at\":"}}`,
	`"\u0000"`, `"\ud800"`, `"é"`, `"!"`, `"a b c"`, `1e400`, `9007199254740993`, `{"a":1,"a":2}`, `"` + strings.Repeat("x", 5000) + `"`,
}

func contents() *rapid.Generator[string] {
	pieces := rapid.SampledFrom([]string{`,"at":`, `","content":`, `{"id":"`, `}`, `{`, `"`, `5`, ` `, `!`, "\n",
		"\xff", "x"})
	joined := rapid.Map(rapid.SliceOfN(pieces, 1, 12), func(p []string) string { return strings.Join(p, "") })
	return rapid.OneOf(rapid.SampledFrom(hostile), joined, rapid.StringN(1, 40, -1))
}

var someWrite = receipt.Write{1, 2, 3, 4, 5, 6, 7, 8}

// sealed is an envelope as the publish script completes it.
func sealed(d channel.Draft, at int64) string {
	return head(d, someWrite) + beforeTime + strconv.FormatInt(at, 10) + "}"
}

func isJSON(content []byte) bool { return json.Valid(content) && utf8.Valid(content) }

func TestEnvelopeRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := channel.Draft{ID: storetest.Names().Draw(t, "id"), Content: []byte(contents().Draw(t, "content")),
			Trace: rapid.SampledFrom([]string{"", trace}).Draw(t, "trace")}
		at := rapid.Int64Range(0, 253_402_300_799_999).Draw(t, "at")
		c := clock.Clock(rapid.Int64Range(int64(clock.Min), int64(clock.Max)).Draw(t, "clock"))
		envelope := sealed(d, at)

		typed := d
		typed.ContentType = rapid.SampledFrom([]string{"text/plain", "a/" + strings.Repeat("b", 126)}).Draw(t, "type")
		m, err := parseEnvelope([]byte(sealed(typed, at)), c)
		require.NoError(t, err, "a content that isn't JSON may be any bytes")
		require.Equal(t, channel.Message{ID: d.ID, Clock: c, ContentType: typed.ContentType, Content: d.Content,
			PublishedAt: time.UnixMilli(at), Trace: d.Trace, Write: someWrite}, m)

		m, err = parseEnvelope([]byte(envelope), c)
		if !isJSON(d.Content) { // publishers can't send it, and it may be JSON together with the envelope
			require.True(t, err != nil || isJSON(m.Content))
			return
		}
		require.NoError(t, err)
		require.Equal(t, channel.Message{ID: d.ID, Clock: c, Content: d.Content, PublishedAt: time.UnixMilli(at),
			Trace: d.Trace, Write: someWrite}, m)
		id, write := identityOf([]byte(envelope))
		require.Equal(t, d.ID, id)
		require.Equal(t, someWrite, write)
		var parts struct {
			ID      string
			Content json.RawMessage
			At      int64
		}
		require.NoError(t, json.Unmarshal([]byte(envelope), &parts), "an envelope is JSON")
		require.Equal(t, d.ID, parts.ID)
		require.Equal(t, strings.TrimSpace(string(d.Content)), string(parts.Content))
		require.Equal(t, at, parts.At)
	})
}

// trace is the trace of a publish.
const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// Versions that don't know writes and traces have the same messages: they read them by parseForeign, since the content
// isn't after the ID.
func TestEarlierVersionsReadEnvelopes(t *testing.T) {
	t.Parallel()
	for _, traced := range []string{"", trace} {
		d := channel.Draft{ID: "a", Content: []byte(` {"b":[1, 2]}`), Trace: traced}
		stored := sealed(d, 5)
		require.True(t, strings.HasPrefix(stored, `{"id":"a","write":"AQIDBAUGBwg",`), stored)
		m, err := parseForeign([]byte(stored), 7)
		require.NoError(t, err)
		require.Equal(t, channel.Message{ID: "a", Clock: 7, Content: []byte(`{"b":[1, 2]}`),
			PublishedAt: time.UnixMilli(5), Trace: traced}, m)
	}
}

// A message whose write is damaged is readable, and its receipt is for its ID. What scripts take for the ID of a
// message that isn't readable is in its receipt.
func TestIdentityOfDamagedEnvelopes(t *testing.T) {
	t.Parallel()
	m, err := parseEnvelope([]byte(`{"id":"a","write":"AQIDBA?GBwg","content":1,"at":5}`), 7)
	require.NoError(t, err)
	require.Equal(t, channel.Message{ID: "a", Clock: 7, Content: []byte(`1`), PublishedAt: time.UnixMilli(5)}, m)
	for envelope, want := range map[string]string{
		`{"id":"a b","content":1}`: "a b", "\v{ \"id\"\n:\t\"a\x00\xff": "", "\v{ \"id\"\n:\t\"a\x00\xff\"": "a\x00\xff",
		`{"id":"` + strings.Repeat("x", headBytes) + `"`: "", `{id":"a"}`: "", "": "",
	} {
		id, write := identityOf([]byte(envelope))
		require.Equal(t, want, id, "%q", envelope)
		require.Zero(t, write)
	}
}

func TestEnvelopeContentCantReachWhatFollows(t *testing.T) {
	t.Parallel()
	m, err := parseEnvelope([]byte(`{"id":"a","content":1,"at":5}`), 1)
	require.NoError(t, err)
	require.Equal(t, 1, cap(m.Content), "an append to the content copies it")
}

func TestForeignEnvelopes(t *testing.T) {
	t.Parallel()
	for envelope, want := range map[string]channel.Message{
		`{ "id": "msg123", "content": { "text": "hello!" } }`: {ID: "msg123", Content: []byte(`{ "text": "hello!" }`)},
		`{"id":"a","content":"x"}`:                            {ID: "a", Content: []byte(`"x"`)},
		`{"content":[1, 2],"id":"a"}`:                         {ID: "a", Content: []byte(`[1, 2]`)},
		`{"id":"a","content":{"b":1,"at":5}}`:                 {ID: "a", Content: []byte(`{"b":1,"at":5}`)},
		`{"id":"a","content":{"b":1,"at":5},"more":{}}`:       {ID: "a", Content: []byte(`{"b":1,"at":5}`)},
		`{"id":"a","content":1,"at":5 }`: {ID: "a", Content: []byte(`1`),
			PublishedAt: time.UnixMilli(5)},
		`{"at":5,"id":"a","content":null}`: {ID: "a", Content: []byte(`null`),
			PublishedAt: time.UnixMilli(5)},
		"{\"\\u0069d\":\"\\u0061\",\n\"content\":0}": {ID: "a", Content: []byte(`0`)},
	} {
		t.Run(envelope, func(t *testing.T) {
			t.Parallel()
			want.Clock = 7
			m, err := parseEnvelope([]byte(envelope), 7)
			require.NoError(t, err)
			require.Equal(t, want, m)
		})
	}
}

func TestUnreadableEnvelopes(t *testing.T) {
	t.Parallel()
	for _, envelope := range []string{
		"", "x", "null", "[]", `"a"`, `{`, `{}`, `{"id":"a"}`, `{"content":1}`, `{"id":"","content":1}`,
		`{"id":1,"content":1}`,
		`{"id":"a","content":`, `{"id":"a","content":1`, `{"id":"a","content":1,"at":`, `{"id":"a","content":1,"at":5`,
		`{"id":"a","content":1,"at":}`, `{"id":"a","content":1,"at":x}`, `{"id":"a","content":,"at":5}`,
		`{"id":"a","content":1,"at":"5"}`,
		`{"id":"a b","content":1,"at":5}`, `{"id":"a\"","content":1,"at":5}`, `{"id":"-a","content":1}`,
		`{"id":"a","content":1,"at":99999999999999999999}`, `{"id":"a","content":1,"at":253402300800000}`,
		`{"id":"a","content":1,"at":-1}`, `{"id":"a","content":1,"at":-1 }`,
		"{\"id\":\"a\",\"content\":\"x\x01y\",\"at\":5}", "{\"id\":\"a\",\"content\":\"x\xffy\",\"at\":5}",
		"{\"id\":\"a\",\"content\":\"x\xffy\",\"at\":5 }", `{"id":"a","content":"x" y",  "at":5}`,
		`{"id":"a","content":{"x:1},"at":5}`, `{"id":"a","content":nu|l,"at":5}`,
		`{"id":"a","write":"AQIDBAUGBwg","type":"text","content":1,"at":5}`,
		`{"id":"a","write":"AQIDBAUGBwg","type":"","content":1,"at":5}`,
		`{"id":"a","write":"AQIDBAUGBwg","type":"a/\"b","content":1,"at":5}`,
		`{"id":"a","write":"AQIDBAUGBwg","type":"a/b","content":1,"at":5`,
		`{"id":"a","write":"AQIDBAUGBwg","type":"a/b","content":1}`,
		`{"id":"a","write":"AQIDBA?GBwg","type":"a/b","content":1,"at":5}`,
		`{"id":"a","write":"AQIDBAUGBwg","type":"a/b","content":x,"at":253402300800000}`,
		`{"id":"a","type":"a/b","content":x,"at":5}`,
		`{"id":"a b","write":"AQIDBAUGBwg","type":"a/b","content":x,"at":5}`,
	} {
		m, err := parseEnvelope([]byte(envelope), 7)
		require.ErrorContains(t, err, "message at clock 7", "%s", envelope)
		require.Zero(t, m, "%s", envelope)
	}
}

func FuzzParseEnvelope(f *testing.F) {
	for _, content := range hostile {
		f.Add([]byte(sealed(channel.Draft{ID: "a", Content: []byte(content)}, 1)))
		f.Add([]byte(`{ "id": "a", "content": ` + content + ` }`))
	}
	for _, content := range append(slices.Clone(hostile), "", "\x00\xff", `,"at":5}`, `","content":`, "plain") {
		f.Add([]byte(sealed(channel.Draft{ID: "a", ContentType: "text/plain", Content: []byte(content)}, 1)))
		f.Add([]byte(sealed(channel.Draft{ID: "a", ContentType: "a/b; c=d", Content: []byte(content), Trace: trace}, 1)))
	}
	f.Fuzz(func(t *testing.T, envelope []byte) {
		m, err := parseEnvelope(envelope, 7)
		if err != nil {
			require.Zero(t, m)
			return
		}
		require.NoError(t, channel.CheckMessageID(m.ID))
		parsed := m.ContentType == "" && isJSON(m.Content) || m.ContentType != "" && channel.IsContentType(m.ContentType)
		require.True(t, parsed, "answers can be parsed: %q %q", m.ContentType, m.Content)
		require.Contains(t, string(envelope), string(m.Content), "contents are kept byte for byte")
		d := channel.Draft{ID: m.ID, ContentType: m.ContentType, Content: m.Content}
		again, err := parseEnvelope([]byte(sealed(d, 5)), 7)
		m.Trace, m.Write = "", someWrite
		require.NoError(t, err)
		m.PublishedAt = time.UnixMilli(5)
		require.Equal(t, m, again)
	})
}

const someEpoch = "01ARZ3NDEKTSV4RRFFQ69G5FAV"

func TestNews(t *testing.T) {
	t.Parallel()
	at := channel.Position{Epoch: ulid.MustParse(someEpoch), Clock: clock.Min}
	m := channel.Message{ID: "a", Clock: clock.Min, Content: []byte(`{"b": "! c"}`), PublishedAt: time.UnixMilli(5)}
	prefix := someEpoch + " -9007199254740991"
	for news, want := range map[string]channel.Event{
		prefix: {Kind: channel.EventPublished, Position: at},
		prefix + ` {"id":"a","content":{"b": "! c"},"at":5}`: {Kind: channel.EventPublished, Position: at, Message: &m},
		prefix + " !s:1": {Kind: channel.EventUnsubscribed, Position: at, Subscriber: "s:1"},
	} {
		event, err := parseNotification(news)
		require.NoError(t, err, news)
		require.Equal(t, want, event, news)
	}
}

func TestUnreadableNews(t *testing.T) {
	t.Parallel()
	for _, news := range []string{
		"", " ", "x", someEpoch, someEpoch + " ", " 1", someEpoch + "  1", "1 " + someEpoch, someEpoch + "0 1",
		someEpoch[1:] + " 1",
		someEpoch + " 1.0", someEpoch + " 1e3", someEpoch + " 01", someEpoch + " 9007199254740992", someEpoch + "\t1",
		someEpoch + " 1 x", someEpoch + " 1 {}", someEpoch + ` 1  !s`, someEpoch + ` 1 {"id":"a"}`,
		someEpoch + " 1 {\"id\":\"a\",\"content\":\"x\x01y\",\"at\":5}",
	} {
		event, err := parseNotification(news)
		require.ErrorIs(t, err, errNotification, "%q", news)
		require.Zero(t, event, "%q", news)
	}
}

func FuzzParseNews(f *testing.F) {
	f.Add(someEpoch + " 5")
	f.Add(someEpoch + " 5 !subscriber")
	f.Add(someEpoch + " 5 @subscriber")
	f.Add(someEpoch + " 5 #")
	f.Add(someEpoch + " 5 " + sealed(channel.Draft{ID: "a", Content: []byte("1"), Trace: trace}, 1))
	f.Add(someEpoch + " 5 " + sealed(channel.Draft{ID: "a", ContentType: "a/b", Content: []byte("\x00 !\xff")}, 1))
	for _, content := range hostile {
		f.Add(someEpoch + " -5 " + sealed(channel.Draft{ID: "a", Content: []byte(content)}, 1))
	}
	f.Fuzz(func(t *testing.T, news string) {
		event, err := parseNotification(news)
		if err != nil {
			require.ErrorIs(t, err, errNotification)
			require.Zero(t, event)
			return
		}
		text := fmt.Sprintf("%s %s", event.Epoch, event.Clock)
		switch {
		case event.Kind == channel.EventUnsubscribed:
			text += " !" + event.Subscriber
		case event.Kind == channel.EventSought:
			text += " @" + event.Subscriber
		case event.Kind == channel.EventDeleted:
			text += " #"
		case event.Message != nil:
			require.Equal(t, event.Clock, event.Message.Clock)
			event.Message.PublishedAt, event.Message.Trace, event.Message.Write = time.UnixMilli(5), "", someWrite
			text += " " + sealed(channel.Draft{ID: event.Message.ID, ContentType: event.Message.ContentType,
				Content: event.Message.Content}, 5)
		}
		again, err := parseNotification(text)
		require.NoError(t, err)
		require.Equal(t, event, again)
	})
}
