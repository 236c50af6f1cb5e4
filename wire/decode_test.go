package wire_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/wire"
)

// refused checks that err is an InputError with these members.
func refused(t *testing.T, err error, want wire.InputError) {
	t.Helper()
	var got *wire.InputError
	require.ErrorAs(t, err, &got)
	require.Equal(t, want, *got)
	require.Equal(t, want.Detail, got.Error())
}

func TestAppendDrafts(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		body  string
		want  []wire.Draft
		batch bool
	}{
		"one":               {`{"id":"a","content":{"x":1}}`, []wire.Draft{{ID: "a", Content: json.RawMessage(`{"x":1}`)}}, false},
		"without id":        {`{"content":null}`, []wire.Draft{{Content: json.RawMessage(`null`)}}, false},
		"content first":     {`{"content":"s","id":"a"}`, []wire.Draft{{ID: "a", Content: json.RawMessage(`"s"`)}}, false},
		"white space":       {" \n{ \"content\" : { \"x\" :\t1.0 } , \"id\" : \"a\" }\r\n", []wire.Draft{{ID: "a", Content: json.RawMessage("{ \"x\" :\t1.0 }")}}, false},
		"escapes":           {`{"\u0069d":"\u0061\"","content":"\u0041"}`, []wire.Draft{{ID: `a"`, Content: json.RawMessage(`"\u0041"`)}}, false},
		"batch of one":      {`[{"content":1}]`, []wire.Draft{{Content: json.RawMessage(`1`)}}, true},
		"batch":             {`[{"content":1}, {"id":"b","content":[ ]}]`, []wire.Draft{{Content: json.RawMessage(`1`)}, {ID: "b", Content: json.RawMessage(`[ ]`)}}, true},
		"lone surrogates":   {`{"content":{"\ud83d":["\ude00\ud83d","\uD83Dx","\ud83d\\ude00"]}}`, []wire.Draft{{Content: json.RawMessage(`{"\ud83d":["\ude00\ud83d","\uD83Dx","\ud83d\\ude00"]}`)}}, false},
		"number as written": {`{"content":1.230e+0045}`, []wire.Draft{{Content: json.RawMessage(`1.230e+0045`)}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, batch, err := wire.AppendDrafts(nil, []byte(test.body))
			require.NoError(t, err)
			require.Equal(t, test.want, got)
			require.Equal(t, test.batch, batch)
		})
	}
}

func TestAppendDraftsRefuses(t *testing.T) {
	t.Parallel()
	const invalid = fault.SlugInvalidBody
	for name, test := range map[string]struct {
		body string
		want wire.InputError
	}{
		"empty":                 {"", wire.InputError{Slug: invalid, Detail: "the body is empty, it must be JSON"}},
		"white space":           {" \n\t ", wire.InputError{Slug: invalid, Detail: "the body is empty, it must be JSON"}},
		"not JSON":              {"hello", wire.InputError{Slug: invalid, Detail: "the body is not valid JSON: invalid character 'h' at start of value"}},
		"a form":                {"id=a&content=b", wire.InputError{Slug: invalid, Detail: "the body is not valid JSON: invalid character 'i' at start of value"}},
		"truncated":             {`{"content":{"a":1`, wire.InputError{Slug: invalid, Detail: "the JSON is cut short", Field: "/content", Offset: 17}},
		"truncated after name":  {`{"content"`, wire.InputError{Slug: invalid, Detail: "the JSON is cut short", Field: "/content", Offset: 10}},
		"truncated string":      {`{"content":"abc`, wire.InputError{Slug: invalid, Detail: "the JSON is cut short", Field: "/content", Offset: 15}},
		"truncated batch":       {`[{"content":1}`, wire.InputError{Slug: invalid, Detail: "the JSON is cut short", Offset: 14}},
		"trailing comma":        {`{"content":1,}`, wire.InputError{Slug: invalid, Detail: "the body is not valid JSON: invalid character ',' at start of value", Offset: 12}},
		"something after":       {`{"content":1} x`, wire.InputError{Slug: invalid, Detail: "there is something after the JSON value", Offset: 13}},
		"two values":            {`{"content":1}{"content":2}`, wire.InputError{Slug: invalid, Detail: "there is something after the JSON value", Offset: 14}},
		"duplicate member":      {`{"content":1,"content":2}`, wire.InputError{Slug: invalid, Detail: `the member "content" is there twice`, Field: "/content", Offset: 13}},
		"duplicate in content":  {`[{"content":{"a":{"b":1,"\u0062":2}}}]`, wire.InputError{Slug: invalid, Detail: `the member "b" is there twice`, Field: "/0/content/a/b", Offset: 24}},
		"invalid UTF-8":         {"{\"content\":\"a\xffb\"}", wire.InputError{Slug: invalid, Detail: "the body is not valid JSON: invalid UTF-8", Field: "/content", Offset: 13}},
		"invalid UTF-8 inside":  {"{\"content\":{\"é\":\"\\ud83d\xf0\x9f\"}}", wire.InputError{Slug: invalid, Detail: "the body is not valid JSON: invalid UTF-8", Field: "/content", Offset: 24}},
		"invalid UTF-8 in name": {"{\"content\":{\"\xff\":1}}", wire.InputError{Slug: invalid, Detail: "the body is not valid JSON: invalid UTF-8", Field: "/content", Offset: 13}},
		"lone surrogate in id":  {`{"id":"a\ud83d","content":1}`, wire.InputError{Slug: invalid, Detail: `"a\ud83d" has half of a surrogate pair, which is no character`, Field: "/id", Offset: 15}},
		"lone in member name":   {`{"\udc00":1}`, wire.InputError{Slug: invalid, Detail: `"\udc00" has half of a surrogate pair, which is no character`, Field: "/\ufffd", Offset: 9}},
		"names of lone halves":  {`{"content":{"\ud83d":1,"\ude00":2}}`, wire.InputError{Slug: invalid, Detail: "the member \"\ufffd\" is there twice", Field: "/content/\ufffd", Offset: 23}},
		"byte order mark":       {"\ufeff{\"content\":1}", wire.InputError{Slug: invalid, Detail: "the body is not valid JSON: invalid character '\\ufeff' at start of value"}},
		"control character":     {"{\"content\":\"a\x01\"}", wire.InputError{Slug: invalid, Detail: `the body is not valid JSON: invalid character '\x01' in string (expecting non-control character)`, Field: "/content", Offset: 13}},
		"a string":              {`"content"`, wire.InputError{Slug: invalid, Detail: "the body must be an object or an array of objects, it is a string"}},
		"a number":              {` 12`, wire.InputError{Slug: invalid, Detail: "the body must be an object or an array of objects, it is a number", Offset: 1}},
		"null":                  {`null`, wire.InputError{Slug: invalid, Detail: "the body must be an object or an array of objects, it is null"}},
		"no content":            {`{"id":"a"}`, wire.InputError{Slug: invalid, Detail: "content is missing", Field: "/content", Offset: 10}},
		"no content in a batch": {`[{"content":1},{}]`, wire.InputError{Slug: invalid, Detail: "content is missing", Field: "/1/content", Offset: 17}},
		"empty batch":           {`[ ]`, wire.InputError{Slug: fault.SlugInvalidBatch, Detail: "the batch is empty", Offset: 1}},
		"batch of numbers":      {`[1]`, wire.InputError{Slug: invalid, Detail: "a message must be an object, it is a number", Field: "/0", Offset: 1}},
		"batch in a batch":      {`[[{"content":1}]]`, wire.InputError{Slug: invalid, Detail: "a message must be an object, it is an array", Field: "/0", Offset: 1}},
		"id of wrong type":      {`{"id":12,"content":1}`, wire.InputError{Slug: invalid, Detail: "id must be a string, it is a number", Field: "/id", Offset: 6}},
		"id is null":            {`{"id":null,"content":1}`, wire.InputError{Slug: invalid, Detail: "id must be a string, it is null", Field: "/id", Offset: 6}},
		"id is empty":           {`{"id":"","content":1}`, wire.InputError{Slug: fault.SlugInvalidMessageID, Detail: "the id is empty: leave it out to have one made", Field: "/id", Offset: 8}},
		"unknown member":        {`{"content":1,"ttl":5}`, wire.InputError{Slug: invalid, Detail: `there is no member "ttl" here, only id and content`, Field: "/ttl", Offset: 18}},
		"nameless member":       {`{"":1}`, wire.InputError{Slug: invalid, Detail: `there is no member "" here, only id and content`, Field: "/", Offset: 3}},
		"other case":            {`{"Content":1}`, wire.InputError{Slug: invalid, Detail: `there is no member "Content" here, only id and content`, Field: "/Content", Offset: 10}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := wire.AppendDrafts(nil, []byte(test.body))
			refused(t, err, test.want)
		})
	}
}

func TestDeepNesting(t *testing.T) {
	t.Parallel()
	nest := func(depth int) []byte {
		return []byte(`{"content":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + `}`)
	}
	_, _, err := wire.AppendDrafts(nil, nest(9999))
	require.NoError(t, err)

	_, _, err = wire.AppendDrafts(nil, nest(10_000))
	var refused *wire.InputError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "the body is not valid JSON: exceeded max depth", refused.Detail)
	require.True(t, strings.HasPrefix(refused.Field, "/content/0/0"))
	require.LessOrEqual(t, len(refused.Field), 256, "a pointer into deep JSON is cut")
}

func TestContentsArePartsOfTheBody(t *testing.T) {
	t.Parallel()
	body := []byte(`[{"content":{ "a": 1 }},{"content":2}]`)
	var space [2]wire.Draft
	drafts, _, err := wire.AppendDrafts(space[:0], body)
	require.NoError(t, err)
	require.Same(t, &space[0], &drafts[0])
	require.Equal(t, unsafe.StringData(unsafe.String(&body[12], 1)), unsafe.SliceData(drafts[0].Content))
	require.Equal(t, len(drafts[0].Content), cap(drafts[0].Content), "appending to a content must not reach into the body")

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
		"":         {Detail: "the body is empty, it must be JSON"},
		`{"a":}`:   {Detail: "the body is not valid JSON: invalid character '}' at start of value", Field: "/a", Offset: 5},
		`1 2`:      {Detail: "there is something after the JSON value", Offset: 3},
		`[1`:       {Detail: "the JSON is cut short", Offset: 2},
		"\"\xc3\"": {Detail: "the body is not valid JSON: invalid UTF-8", Offset: 1},
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
		`{"from":"earliest"}`:          {Start: wire.StartEarliest},
		`{"from":0}`:                   {Start: wire.StartAt},
		`{"from": -9007199254740991 }`: {Start: wire.StartAt, Clock: clock.Min},
	} {
		got, err := wire.DecodeSubscribe([]byte(body))
		require.NoError(t, err, body)
		require.Equal(t, want, got.From, body)
	}
	const words = `, it must be "latest", "earliest" or a clock from -9007199254740991 to 9007199254740991`
	for body, want := range map[string]wire.InputError{
		`{"from":"now"}`:            {Slug: fault.SlugInvalidFrom, Detail: `from is "now"` + words, Field: "/from", Offset: 13},
		`{"from":9007199254740992}`: {Slug: fault.SlugInvalidFrom, Detail: `from is 9007199254740992` + words, Field: "/from", Offset: 24},
		`{"from":1e3}`:              {Slug: fault.SlugInvalidFrom, Detail: `from is 1e3` + words, Field: "/from", Offset: 11},
		`{"from":null}`:             {Slug: fault.SlugInvalidFrom, Detail: `from is null` + words, Field: "/from", Offset: 12},
		`{"at":1}`:                  {Slug: fault.SlugInvalidBody, Detail: `there is no member "at" here, only from`, Field: "/at", Offset: 5},
		`[]`:                        {Slug: fault.SlugInvalidBody, Detail: "the body must be an object, it is an array"},
		`{"from"`:                   {Slug: fault.SlugInvalidBody, Detail: "the JSON is cut short", Field: "/from", Offset: 7},
		`{"from":`:                  {Slug: fault.SlugInvalidBody, Detail: "the JSON is cut short", Field: "/from", Offset: 8},
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
		"":                       {Detail: "the body is empty, it must be JSON"},
		`{}`:                     {Detail: "receiptHandle is missing", Field: "/receiptHandle", Offset: -1},
		`{"receiptHandle":1}`:    {Detail: "receiptHandle must be a string, it is a number", Field: "/receiptHandle", Offset: 17},
		`{"receiptHandle":"a"}]`: {Detail: "there is something after the JSON value", Offset: 21},
		`{"handle":"a"}`:         {Detail: `there is no member "handle" here, only receiptHandle`, Field: "/handle", Offset: 9},
		`"abc"`:                  {Detail: "the body must be an object, it is a string"},
	} {
		_, err := wire.DecodeAck([]byte(body))
		want.Slug = fault.SlugInvalidBody
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
		`{"wait":"20"}`:           {Wait: wire.Wait(20 * time.Second)},
		`{"wait":"0"}`:            {},
	} {
		got, err := wire.DecodeNext([]byte(body))
		require.NoError(t, err, body)
		require.Equal(t, want, got, body)
	}
	for body, want := range map[string]wire.InputError{
		`{"max":0}`:      {Slug: fault.SlugInvalidMax, Detail: `max is "0", it must be an integer of at least 1`, Field: "/max", Offset: 8},
		`{"max":1.5}`:    {Slug: fault.SlugInvalidMax, Detail: `max is "1.5", it must be an integer of at least 1`, Field: "/max", Offset: 10},
		`{"max":"5"}`:    {Slug: fault.SlugInvalidMax, Detail: `max is "\"5\"", it must be an integer of at least 1`, Field: "/max", Offset: 10},
		`{"max":}`:       {Slug: fault.SlugInvalidBody, Detail: `the body is not valid JSON: invalid character '}' at start of value`, Field: "/max", Offset: 7},
		`{"wait":"1x"}`:  {Slug: fault.SlugInvalidWait, Detail: `wait is "1x"` + waitWords, Field: "/wait", Offset: 12},
		`{"wait":-1}`:    {Slug: fault.SlugInvalidWait, Detail: `wait is "-1"` + waitWords, Field: "/wait", Offset: 10},
		`{"wait":1.5}`:   {Slug: fault.SlugInvalidWait, Detail: `wait is "1.5"` + waitWords, Field: "/wait", Offset: 11},
		`{"wait":"\uZ"}`: {Slug: fault.SlugInvalidBody, Detail: "the body is not valid JSON: invalid escape sequence `\\uZ\"}` in string", Field: "/wait", Offset: 9},
		`{"Max":1}`:      {Slug: fault.SlugInvalidBody, Detail: `there is no member "Max" here, only receiptHandle, max and wait`, Field: "/Max", Offset: 6},
	} {
		_, err := wire.DecodeNext([]byte(body))
		refused(t, err, want)
	}
}

const waitWords = ", it must be a duration that isn't negative, as in 20s or 1m30s, or a number of seconds"

func TestParseWait(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"0": 0, "0s": 0, "20": 20 * time.Second, "20s": 20 * time.Second, "1m30s": 90 * time.Second, "250ms": 250 * time.Millisecond, "1.5s": 1500 * time.Millisecond,
	} {
		got, err := wire.ParseWait(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "-1", "-1s", "20 s", "s", "1d", "1e3", "99999999999999999999", "9223372037", "0x10", "٣", "NaN"} {
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
