package wire_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

// refused checks that err is an InputError with these members. A slug that is left out is SlugInvalidBody.
func refused(t *testing.T, err error, want wire.InputError) {
	t.Helper()
	want.Slug = cmp.Or(want.Slug, fault.SlugInvalidBody)
	var got *wire.InputError
	require.ErrorAs(t, err, &got)
	require.Equal(t, want, *got)
	require.Equal(t, want.Detail, got.Error())
}

func TestDecodeDrafts(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		body  string
		want  []channel.Draft
		batch bool
	}{
		"one": {`{"id":"a","content":{"x":1}}`,
			[]channel.Draft{{ID: "a", Content: []byte(`{"x":1}`)}}, false},
		"without id": {`{"content":null}`, []channel.Draft{{Content: []byte(`null`)}}, false},
		"content first": {`{"content":"s","id":"a"}`, []channel.Draft{{ID: "a", Content: []byte(`"s"`)}},
			false},
		"white space": {" \n{ \"content\" : { \"x\" :\t1.0 } , \"id\" : \"a\" }\r\n",
			[]channel.Draft{{ID: "a", Content: []byte("{ \"x\" :\t1.0 }")}}, false},
		"escapes": {`{"\u0069d":"\u0061\"","content":"\u0041"}`,
			[]channel.Draft{{ID: `a"`, Content: []byte(`"\u0041"`)}}, false},
		"batch of one": {`[{"content":1}]`, []channel.Draft{{Content: []byte(`1`)}}, true},
		"batch": {`[{"content":1}, {"id":"b","content":[ ]}]`, []channel.Draft{{Content: []byte(`1`)},
			{ID: "b", Content: []byte(`[ ]`)}}, true},
		"lone surrogates": {`{"content":{"\ud83d":["\ude00\ud83d","\uD83Dx","\ud83d\\ude00"]}}`,
			[]channel.Draft{{Content: []byte(`{"\ud83d":["\ude00\ud83d","\uD83Dx","\ud83d\\ude00"]}`)}}, false},
		"bytes": {`{"content":"\u0041AH\/","contentType":"Text/Plain; charset=UTF-8"}`,
			[]channel.Draft{{ContentType: "text/plain; charset=utf-8", Content: []byte("\x00\x01\xff")}}, false},
		"no bytes": {`[{"contentType":"a/b","content":""},{"content":""}]`,
			[]channel.Draft{{ContentType: "a/b", Content: []byte{}}, {Content: []byte(`""`)}}, true},
		"JSON with its type": {`{"contentType":"application/json; charset=utf-8","content":[ ]}`,
			[]channel.Draft{{Content: []byte(`[ ]`)}}, false},
		"number as written": {`{"content":1.230e+0045}`, []channel.Draft{{Content: []byte(`1.230e+0045`)}},
			false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, batch, err := wire.DecodeDrafts([]byte(test.body))
			require.NoError(t, err)
			require.Equal(t, test.want, got)
			require.Equal(t, test.batch, batch)
		})
	}
}

// TestDecodeDraftsRefuses tests the rules of messages; package strictjson tests those of strict JSON.
func TestDecodeDraftsRefuses(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]wire.InputError{
		"":                          {Detail: "the body is empty, it must be JSON"},
		" \n\t ":                    {Detail: "the body is empty, it must be JSON"},
		"id=a&content=b":            {Detail: "invalid JSON: invalid character 'i' at start of value"},
		`{"content":{"a":1`:         {Detail: "unexpected end of JSON", Field: "/content", Offset: 17},
		`{"content":1} x`:           {Detail: "invalid JSON: invalid character 'x' after top-level value", Offset: 14},
		`{"content":1,"content":2}`: {Detail: "content: duplicate member", Field: "/content", Offset: 13},
		`[{"content":{"a":[{"b":1,"\u0062":2}]}}]`: {Detail: "[0].content.a[0].b: duplicate member",
			Field: "/0/content/a/0/b", Offset: 25},
		"{\"content\":\"a\xffb\"}": {Detail: "invalid JSON: invalid UTF-8", Field: "/content",
			Offset: 13},
		`{"id":"a\ud83d","content":1}`: {Detail: `id: "a\ud83d" contains half of a surrogate pair, which is not a character`, Field: "/id", Offset: 6},
		`"content"`:                    {Detail: "the body must be an object or an array of objects, not a string"},
		`null`:                         {Detail: "the body must be an object or an array of objects, not null"},
		`{"id":"a"}`:                   {Detail: "content: is missing", Field: "/content", Offset: -1},
		`[{"content":1},{}]`:           {Detail: "content: is missing", Field: "/1/content", Offset: -1},
		`[ ]`:                          {Slug: fault.SlugInvalidBatch, Detail: "the batch is empty"},
		`[1]`: {Detail: "[0]: must be an object, not a number", Field: "/0",
			Offset: 1},
		`{"id":12,"content":1}`: {Detail: "id: must be a string, not a number", Field: "/id",
			Offset: 6},
		`{"id":null,"content":1}`: {Detail: "id: must be a string, not null", Field: "/id", Offset: 6},
		`{"id":"","content":1}`: {Slug: fault.SlugInvalidMessageID,
			Detail: "the id is empty: leave it out to have one made", Field: "/id", Offset: 6},
		`{"contentType":"","content":1}`: {Slug: fault.SlugContentType,
			Detail: `the content type "" isn't a media type: no media type`, Field: "/contentType", Offset: 15},
		`[{"content":1},{"content":"","contentType":"text"}]`: {Slug: fault.SlugContentType,
			Detail: `the content type "text" isn't a media type such as text/plain`, Field: "/1/contentType", Offset: 43},
		`{"contentType":5,"content":1}`: {Detail: "contentType: must be a string, not a number", Field: "/contentType",
			Offset: 15},
		`{"contentType":"a/b"}`: {Detail: "content: is missing", Field: "/content", Offset: -1},
		`{"contentType":"a/b","content":{}}`: {Slug: fault.SlugInvalidContent, Field: "/content", Offset: 31,
			Detail: "content: is no string, it must be a string with the base64 of the bytes, since the message has the " +
				"contentType a/b"},
		`[{"content":1},{"contentType":"a/b","content":"AA=A"}]`: {Slug: fault.SlugInvalidContent, Field: "/1/content",
			Offset: 46, Detail: "content: is no base64 at byte 2, it must be a string with the base64 of the bytes, since the " +
				"message has the contentType a/b"},
		`{"contentType":"a/b","content":"AAA"}`: {Slug: fault.SlugInvalidContent, Field: "/content", Offset: 31,
			Detail: "content: is no base64 at byte 0, it must be a string with the base64 of the bytes, since the message has " +
				"the contentType a/b"},
		`{"contentType":"a/b","content":"AB=="}`: {Slug: fault.SlugInvalidContent, Field: "/content", Offset: 31,
			Detail: "content: is no base64 at byte 2, it must be a string with the base64 of the bytes, since the message has " +
				"the contentType a/b"},
		`{"contentType":"a/b","content":"AA\n=="}`: {Slug: fault.SlugInvalidContent, Field: "/content", Offset: 31,
			Detail: "content: is no base64, it must be a string with the base64 of the bytes, since the message has the " +
				"contentType a/b"},
		`{"content":1,"ttl":5}`: {Detail: "ttl: unknown member (known: id, contentType, content)", Field: "/ttl",
			Offset: 13},
		`{"Content":1}`: {Detail: "Content: unknown member (known: id, contentType, content)",
			Field: "/Content", Offset: 1},
	} {
		t.Run(body, func(t *testing.T) {
			t.Parallel()
			_, _, err := wire.DecodeDrafts([]byte(body))
			refused(t, err, want)
		})
	}
}

func TestContentsArePartsOfTheBody(t *testing.T) {
	t.Parallel()
	body := []byte(`[{"content":{ "a": 1 }},{"content":2}]`)
	drafts, _, err := wire.DecodeDrafts(body)
	require.NoError(t, err)
	require.Equal(t, unsafe.StringData(unsafe.String(&body[12], 1)), unsafe.SliceData(drafts[0].Content))
	require.Equal(t, len(drafts[0].Content), cap(drafts[0].Content),
		"appending to a content must not reach into the body")

	content, err := wire.DecodeContent(body)
	require.NoError(t, err)
	require.Same(t, &body[0], &content[0])
}

func TestDecodeContent(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"a":1}`:              `{"a":1}`,
		" \n[ 1 , 2 ]\n":       `[ 1 , 2 ]`,
		`"x"`:                  `"x"`,
		`"cut \ud83d"`:         `"cut \ud83d"`,
		`-0.0`:                 `-0.0`,
		`null `:                `null`,
		`{"content":1,"id":2}`: `{"content":1,"id":2}`,
	} {
		got, err := wire.DecodeContent([]byte(body))
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
	for body, want := range map[string]wire.InputError{
		"":       {Detail: "the body is empty, it must be JSON"},
		`{"a":}`: {Detail: "invalid JSON: invalid character '}' at start of value", Field: "/a", Offset: 5},
		`1 2`:    {Detail: "invalid JSON: invalid character '2' after top-level value", Offset: 2},
	} {
		_, err := wire.DecodeContent([]byte(body))
		want.Slug = fault.SlugInvalidContent
		refused(t, err, want)
	}
}

func TestDecodeSubscribe(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]wire.From{
		"":                             {},
		" \n":                          {},
		`{}`:                           {},
		`{"from":"latest"}`:            {},
		`{"from":"earliest"}`:          {Start: channel.StartEarliest},
		`{"from":0}`:                   {Start: channel.StartAt},
		`{"from": -9007199254740991 }`: {Start: channel.StartAt, Clock: clock.Min},
	} {
		got, err := wire.DecodeSubscribe([]byte(body))
		require.NoError(t, err, body)
		require.Equal(t, want, got.From, body)
	}
	const words = `from must be "latest", "earliest" or a clock from -9007199254740991 to 9007199254740991, not `
	for body, want := range map[string]wire.InputError{
		`{"from":"now"}`: {Slug: fault.SlugInvalidFrom, Detail: words + `"now"`, Field: "/from", Offset: 8},
		`{"from":9007199254740992}`: {Slug: fault.SlugInvalidFrom, Detail: words + "9007199254740992", Field: "/from",
			Offset: 8},
		`{"from":1e3}`:  {Slug: fault.SlugInvalidFrom, Detail: words + "1e3", Field: "/from", Offset: 8},
		`{"from":null}`: {Slug: fault.SlugInvalidFrom, Detail: words + "null", Field: "/from", Offset: 8},
		`{"at":1}`:      {Detail: "at: unknown member (known: from)", Field: "/at", Offset: 1},
		`[]`:            {Detail: "the body must be an object, not an array"},
	} {
		_, err := wire.DecodeSubscribe([]byte(body))
		refused(t, err, want)
	}
}

func TestDecodeAck(t *testing.T) {
	t.Parallel()
	got, err := wire.DecodeAck([]byte(`{"receiptHandle":"abc"}`))
	require.NoError(t, err)
	require.Equal(t, "abc", got.ReceiptHandle)
	for body, want := range map[string]wire.InputError{
		"":   {Detail: "the body is empty, it must be JSON"},
		`{}`: {Detail: "receiptHandle: is missing", Field: "/receiptHandle", Offset: -1},
		`{"receiptHandle":1}`: {Detail: "receiptHandle: must be a string, not a number", Field: "/receiptHandle",
			Offset: 17},
		`{"handle":"a"}`: {Detail: "handle: unknown member (known: receiptHandle)", Field: "/handle", Offset: 1},
	} {
		_, err := wire.DecodeAck([]byte(body))
		refused(t, err, want)
	}
}

func TestDecodeNext(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]wire.NextRequest{
		"":                        {},
		`{}`:                      {},
		`{"receiptHandle":""}`:    {},
		`{"receiptHandle":"a\/"}`: {ReceiptHandle: "a/"},
		`{"max":5,"wait":"1m"}`:   {Max: 5, Wait: wire.Wait(time.Minute)},
		`{"wait":20}`:             {Wait: wire.Wait(20 * time.Second)},
		`{"wait":"\u00320"}`:      {Wait: wire.Wait(20 * time.Second)},
		`{"wait":"0"}`:            {},
	} {
		got, err := wire.DecodeNext([]byte(body))
		require.NoError(t, err, body)
		require.Equal(t, want, got, body)
	}
	for body, want := range map[string]wire.InputError{
		`{"max":0}`: {Slug: fault.SlugInvalidMax, Detail: `max must be an integer of at least 1, not "0"`,
			Field: "/max", Offset: 7},
		`{"max":1.5}`: {Slug: fault.SlugInvalidMax, Detail: `max must be an integer of at least 1, not "1.5"`,
			Field: "/max", Offset: 7},
		`{"max":"5"}`: {Slug: fault.SlugInvalidMax, Detail: `max must be an integer of at least 1, not "\"5\""`,
			Field: "/max", Offset: 7},
		`{"max":null}`: {Slug: fault.SlugInvalidMax, Detail: `max must be an integer of at least 1, not "null"`,
			Field: "/max", Offset: 7},
		`{"wait":"1x"}`: {Slug: fault.SlugInvalidWait, Detail: waitWords + `"1x"`, Field: "/wait", Offset: 8},
		`{"wait":"\ud83d"}`: {Detail: `wait: "\ud83d" contains half of a surrogate pair, which is not a character`,
			Field: "/wait", Offset: 8},
		`{"wait":-1}`:  {Slug: fault.SlugInvalidWait, Detail: waitWords + `"-1"`, Field: "/wait", Offset: 8},
		`{"wait":1.5}`: {Slug: fault.SlugInvalidWait, Detail: waitWords + `"1.5"`, Field: "/wait", Offset: 8},
		`{"Max":1}`:    {Detail: "Max: unknown member (known: receiptHandle, lastReceiptHandle, max, wait)", Field: "/Max", Offset: 1},
	} {
		_, err := wire.DecodeNext([]byte(body))
		refused(t, err, want)
	}
}

func TestDecodeFetch(t *testing.T) {
	t.Parallel()
	const source = `{"channel":"a","subscriber":"s"}`
	list := func(n int) string { return strings.TrimSuffix(strings.Repeat(source+", ", n), ", ") }
	for body, want := range map[string]wire.FetchRequest{
		`{"from":[]}`:                        {From: []client.Source{}},
		`{"from":[` + list(1) + `],"max":5}`: {From: []client.Source{{Channel: "a", Subscriber: "s"}}, Max: 5},
		`{"from":[` + list(client.MaxSources) + `]}`: {
			From: slices.Repeat([]client.Source{{Channel: "a", Subscriber: "s"}}, client.MaxSources)},
	} {
		got, err := wire.DecodeFetch([]byte(body))
		require.NoError(t, err, body)
		require.Equal(t, want, got, body)
	}
	full := `{"from":[` + list(client.MaxSources) + ", "
	excess := wire.InputError{Slug: fault.SlugInvalidSources, Detail: "from has more than 256 sources",
		Field: "/from/256", Offset: int64(len(full))}
	for body, want := range map[string]wire.InputError{
		`{}`:            {Detail: "from: is missing", Field: "/from", Offset: -1},
		`{"from":null}`: {Detail: "from: must be an array, not null", Field: "/from", Offset: 8},
		`{"from":{}}`:   {Detail: "from: must be an array, not an object", Field: "/from", Offset: 8},
		`{"from":nul}`: {Detail: "invalid JSON: invalid character '}' in literal null (expecting 'l')", Field: "/from",
			Offset: 11},
		`{"from":[` + source:             {Detail: "unexpected end of JSON", Field: "/from", Offset: 41},
		`{"from":[` + source + `,null]}`: {Detail: "from[1]: must be an object, not null", Field: "/from/1", Offset: 42},
		`{"from":[` + source + `,{"subscriber":"s"}]}`: {Detail: "from[1].channel: is missing", Field: "/from/1/channel",
			Offset: 59},
		`{"from":[` + source + `,]}`: {Detail: "invalid JSON: invalid character ',' at start of value", Field: "/from",
			Offset: 41},
		full + source + `]}`:         excess,
		full + source + `, not JSON`: excess,
		full + `{"unknown":1}]}`:     excess,
	} {
		_, err := wire.DecodeFetch([]byte(body))
		refused(t, err, want)
	}
}

const waitWords = "wait must be a duration that isn't negative, such as 20s or 1m30s, or a number of seconds, not "

func TestParseWait(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"0": 0, "0s": 0, "20": 20 * time.Second, "20s": 20 * time.Second, "1m30s": 90 * time.Second,
		"250ms": 250 * time.Millisecond, "1.5s": 1500 * time.Millisecond,
	} {
		got, err := wire.ParseWait(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "-1", "-1s", "20 s", "s", "1d", "1e3", "99999999999999999999", "9223372037",
		"0x10", "٣", "NaN"} {
		_, err := wire.ParseWait(text)
		var refused *wire.InputError
		require.ErrorAs(t, err, &refused, text)
		require.Equal(t, fault.SlugInvalidWait, refused.Slug)
	}
}

func TestParseMax(t *testing.T) {
	t.Parallel()
	n, err := wire.ParseMax("64")
	require.NoError(t, err)
	require.Equal(t, 64, n)
	for _, text := range []string{"", "0", "-1", "1.0", "ten", " 1", "99999999999999999999"} {
		_, err := wire.ParseMax(text)
		var refused *wire.InputError
		require.ErrorAs(t, err, &refused, text)
		require.Equal(t, fault.SlugInvalidMax, refused.Slug)
	}
}

// TestFramesInTheirUsualForm: a publish is decoded in one way or another by its form, with the same result.
func TestFramesInTheirUsualForm(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{"type":"publish","ref":5,"channel":"c","id":"m","content":{"a":[1, null]}}`,
		`{"type":"publish","ref":5,"channel":"c","content":"text"}`,
		`{"id":"m","channel":"c","ref":999999999999999,"type":"publish","content":[]}`,
		`{"type":"publish","ref":9007199254740991,"channel":"c","content":1}`,
		`{"type":"publish","ref":9007199254740992,"channel":"c","content":1}`,
		`{"type":"publish","ref":100000000000000,"channel":"c","content":null}`,
		`{"type":"publish","ref":1,"channel":"c","content":"é 😀"}`,
		`{"type":"publish","ref":1,"channel":"c","content":"\ud83d"}`,
		`{"type":"publish","ref":1,"channel":"é","content":"a\"b"}`,
		`{"type":"publish","ref":1,"channel":"c","content": 1}`,
		`{"type":"publish","ref":1,"channel":"c","content":1 }`,
		`{"type":"publish","ref":1,"channel":"c","content":{"a":1},"id":"m"}`,
		`{"type":"publish","ref":1,"channel":"c","content":{"a":1,"a":2}}`,
		`{"type":"publish","ref":1,"channel":"c","content":"a"b"}`,
		`{"type":"publish","ref":1,"channel":"c","content":"a","content":"b"}`,
		`{"type":"publish","ref":1,"channel":"c","content":}`,
		`{"type":"publish","ref":1,"channel":"c","content":1}}`,
		`{"type":"publish","ref":1,"channel":"c","content":{"a":1}`,
		`{"type":"publish","ref":1,"channel":"c","content":"a}`,
		`{"type":"publish","ref":1,"channel":"c","content":` + "\"\xff\"}",
		`{"type":"publish","ref":1,"channel":"c","content":` + "\"\n\"}",
		`{"type":"publish","ref":1,"channel":"` + "\xff" + `","content":1}`,
		`{"type":"publish","ref":1,"channel":"","content":1}`,
		`{"type":"publish","ref":1,"channel":"c","id":"","content":1}`,
		`{"type":"publish","ref":1,"ref":2,"channel":"c","content":1}`,
		`{"type":"publish","ref":1,"channel":"c","channel":"d","content":1}`,
		`{"type":"publish","ref":1,"channel":"c","id":"a","id":"b","content":1}`,
		`{"type":"publish","type":"publish","ref":1,"channel":"c","content":1}`,
		`{"type":"publish","ref":01,"channel":"c","content":1}`,
		`{"type":"publish","ref":1.0,"channel":"c","content":1}`,
		`{"type":"publish","ref":-1,"channel":"c","content":1}`,
		`{"type":"publish","ref":0,"channel":"c","content":1}`,
		`{"type":"publish","ref":1,"channel":"c","content":1,}`,
		`{"type":"publish","ref":1,"channel":"c","subscriber":"s","content":1}`,
		`{"type":"publish","ref":1,"channel":"c","close":true,"content":1}`,
		`{"type":"publish","ref":1,"channel":"c","order":"a","content":1}`,
		`{"type":"publish","ref":1,"channel":"c","producer":{"id":"p","epoch":1,"sequence":2},"content":1}`,
		`{"type":"publish","ref":1,"channel":"c","x":1,"content":1}`,
		`{"type":"publish","ref":1,"content":1}`, `{"type":"publish","ref":1,"channel":"c"}`,
		`{"ref":1,"channel":"c","content":1}`, `{"type":"publish","channel":"c","content":1}`,
		`{"type":"ping","ref":1}`, `{"type":"publish"`, `{"type":"publish",`, `{"type":`, `{"type"`, `{"`, `{`, `{}`, ``,
	} {
		got, err := wire.DecodeFrame([]byte(text))
		// A frame with a space before the first member isn't in the usual form.
		other, otherErr := wire.DecodeFrame([]byte(strings.Replace(text, "{", "{ ", 1)))
		require.Equal(t, other, got, text)
		if otherErr == nil {
			require.NoError(t, err, text)
			continue
		}
		want, found := (*wire.InputError)(nil), (*wire.InputError)(nil)
		require.ErrorAs(t, otherErr, &want, text)
		require.ErrorAs(t, err, &found, text)
		require.Equal(t, want.Detail, found.Detail, text)
		require.Equal(t, want.Field, found.Field, text)
	}
}
