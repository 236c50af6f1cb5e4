package strictjson_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/strictjson"
)

// document has a member of every sort that is decoded.
type document struct {
	Name    string                     `json:"name"`
	Count   int                        `json:"count"`
	Factor  float64                    `json:"factor"`
	On      bool                       `json:"on"`
	At      time.Time                  `json:"at,omitzero"`
	Life    life                       `json:"life"`
	Tags    []string                   `json:"tags"`
	Weights map[string]float64         `json:"weights"`
	Parts   []part                     `json:"parts"`
	Own     map[string]json.RawMessage `json:"own"`
	Kept    json.RawMessage            `json:"kept,omitzero"`
	Hidden  string                     `json:"-"`
	shared
}

type shared struct {
	Common string `json:"common"`
}

type part struct {
	ID string `json:"id"`
}

type life time.Duration

func (l *life) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is not a duration", text)
	}
	*l = life(d)
	return nil
}

// complete is a document with all members.
var complete = []byte(` {"name":"\u0061\"","count":-3,"factor":1.5e1,"on":true,"at":"2020-01-01T00:00:00Z","life":"5s","tags":["a"],
		"weights":{"\u0062":1},"parts":[{"id":"p"}],"own":{"k":{ "a": "\ud83d" }},"kept":[ null, "\ud83d" ],"common":"c"} `)

func TestUnmarshal(t *testing.T) {
	t.Parallel()
	var got document
	require.NoError(t, strictjson.Unmarshal(complete, &got))
	require.Equal(t, document{
		Name: `a"`, Count: -3, Factor: 15, On: true, At: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC),
		Life: life(5 * time.Second),
		Tags: []string{"a"}, Weights: map[string]float64{"b": 1}, Parts: []part{{"p"}},
		Own:  map[string]json.RawMessage{"k": json.RawMessage(`{ "a": "\ud83d" }`)},
		Kept: json.RawMessage(`[ null, "\ud83d" ]`), shared: shared{"c"},
	}, got)
}

// refusals are texts for document that Unmarshal refuses.
var refusals = map[string]strictjson.Error{
	"":             {Reason: "unexpected end of JSON"},
	" \n":          {Reason: "unexpected end of JSON", Offset: 2},
	`{"tags":["a"`: {Reason: "unexpected end of JSON", Pointer: "/tags", Offset: 12},
	`{"name":"ab`:  {Reason: "unexpected end of JSON", Pointer: "/name", Offset: 11},
	`hello`:        {Reason: "invalid JSON: invalid character 'h' at start of value"},
	`{"tags":["a",]}`: {Reason: "invalid JSON: invalid character ',' at start of value", Pointer: "/tags",
		Offset: 12},
	`{"name":"\uZ"}`: {Reason: "invalid JSON: invalid escape sequence `\\uZ\"}` in string", Pointer: "/name",
		Offset: 9},
	`{} x`:                {Reason: "invalid JSON: invalid character 'x' after top-level value", Offset: 3},
	"{\"name\":\"a\xff\"": {Reason: "invalid JSON: invalid UTF-8", Pointer: "/name", Offset: 10},
	"{\"name\":\"a\xff":   {Reason: "unexpected end of JSON", Pointer: "/name", Offset: 11},
	"{\"kept\":{\"é\":\"\\ud83d\xf0\x9f\"}}": {Reason: "invalid JSON: invalid UTF-8", Pointer: "/kept/é", Offset: 21},
	"x\xff":                   {Reason: "invalid JSON: invalid character 'x' at start of value"},
	`{"name":"a","name":"b"}`: {Reason: "duplicate member", Path: "name", Pointer: "/name", Offset: 12},
	`{"kept":[{"a":1,"\u0061":2}]}`: {Reason: "duplicate member", Path: "kept[0].a", Pointer: "/kept/0/a",
		Offset: 16},
	`{"weights":{"1":1,"1":2}}`: {Reason: "duplicate member", Path: "weights.1", Pointer: "/weights/1",
		Offset: 18},
	`{"own":{"\ud83d":1,"\ude00":2}}`: {Reason: `"\ud83d" contains half of a surrogate pair, which is not a character`,
		Path: "own.\ufffd", Pointer: "/own/\ufffd", Offset: 8},
	`{"parts":[{"id":"a"},{"ID":"b"}]}`: {Reason: "unknown member (known: id)", Path: "parts[1].ID",
		Pointer: "/parts/1/ID", Offset: 22},
	`{"Hidden":1}`: {Reason: "unknown member (known: name, count, factor, on, at, life, tags, weights, parts, own, kept, common)", Path: "Hidden", Pointer: "/Hidden", Offset: 1},
	`[]`:           {Reason: "must be an object, not an array"},
	` null`:        {Reason: "must be an object, not null", Offset: 1},
	`{"name":5}`: {Reason: "must be a string, not a number", Path: "name", Pointer: "/name",
		Offset: 8},
	`{"name":null}`: {Reason: "must be a string, not null", Path: "name", Pointer: "/name",
		Offset: 8},
	`{"name":nul,"kept":null}`: {Reason: "invalid JSON: invalid character ',' in literal null (expecting 'l')",
		Pointer: "/name", Offset: 11},
	`{"weights":{null:1}}`: {Reason: "invalid JSON: object member name must be a string", Pointer: "/weights",
		Offset: 12},
	`{"life":"\ud83d"}`: {Reason: `"\ud83d" contains half of a surrogate pair, which is not a character`, Path: "life",
		Pointer: "/life", Offset: 8},
	`{"name":"\ud83d"}`: {Reason: `"\ud83d" contains half of a surrogate pair, which is not a character`, Path: "name",
		Pointer: "/name", Offset: 8},
	`{"tags":{}}`: {Reason: "must be an array, not an object", Path: "tags", Pointer: "/tags",
		Offset: 8},
	`{"tags":["a",null]}`: {Reason: "must be a string, not null", Path: "tags[1]", Pointer: "/tags/1",
		Offset: 13},
	`{"count":1.5}`: {Reason: "must be an integer, not 1.5", Path: "count", Pointer: "/count",
		Offset: 9},
	`{"count":"1"}`: {Reason: "must be an integer, not a string", Path: "count", Pointer: "/count",
		Offset: 9},
	`{"count":9223372036854775808}`: {Reason: "must be an integer, not 9223372036854775808", Path: "count",
		Pointer: "/count", Offset: 9},
	`{"weights":{"a":1e999}}`: {Reason: "1e999 is too large for a double", Path: "weights.a",
		Pointer: "/weights/a", Offset: 16},
	`{"on":"true"}`: {Reason: "must be true or false, not a string", Path: "on", Pointer: "/on",
		Offset: 6},
	`{"at":"yesterday"}`: {Reason: `must be a time, such as "2006-01-02T15:04:05Z"`, Path: "at",
		Pointer: "/at", Offset: 6},
	`{"life":5}`: {Reason: "must be a string, not a number", Path: "life", Pointer: "/life",
		Offset: 8},
	`{"life":"soon"}`: {Reason: `"soon" is not a duration`, Path: "life", Pointer: "/life",
		Offset: 8},
	`{"parts":[{"id":{}}]}`: {Reason: "must be a string, not an object", Path: "parts[0].id",
		Pointer: "/parts/0/id", Offset: 16},
	`{"a/b~":1}`: {Reason: "unknown member (known: name, count, factor, on, at, life, tags, weights, parts, own, kept, common)", Path: "a/b~", Pointer: "/a~1b~0", Offset: 1},
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for text, want := range refusals {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			refuses(t, text, new(document), want)
		})
	}
}

func refuses(t *testing.T, text string, v any, want strictjson.Error) {
	t.Helper()
	var got *strictjson.Error
	require.ErrorAs(t, strictjson.Unmarshal([]byte(text), v), &got)
	want.Cause = got.Cause
	require.Equal(t, want, *got)
}

// nested decodes itself.
type nested map[string]string

func (n *nested) UnmarshalJSON(text []byte) error {
	return strictjson.Unmarshal(text, (*map[string]string)(n))
}

func TestErrorsOfNestedTexts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]strictjson.Error{
		`[{"in":{"a": 1}}]`:        {Reason: "must be a string, not a number", Path: "[0].in.a", Pointer: "/0/in/a", Offset: 13},
		`[{"in":{"a": "\ud83d"}}]`: {Reason: `"\ud83d" contains half of a surrogate pair, which is not a character`, Path: "[0].in.a", Pointer: "/0/in/a", Offset: 13},
		`[{"in":null}]`:            {Reason: "must be an object, not null", Path: "[0].in", Pointer: "/0/in", Offset: 7},
	} {
		refuses(t, text, new([]map[string]nested), want)
	}
}

func TestMembersThatHideOthers(t *testing.T) {
	t.Parallel()
	var got struct {
		part
		ID   life   `json:"id"`
		Name string `json:"name"`
	}
	require.NoError(t, strictjson.Unmarshal([]byte(`{"id":"5s"}`), &got))
	require.Equal(t, life(5*time.Second), got.ID)
	require.Empty(t, got.part.ID)
	refuses(t, `{"x":1}`, &got, strictjson.Error{Reason: "unknown member (known: id, name)", Path: "x", Pointer: "/x",
		Offset: 1})
}

func TestAbsent(t *testing.T) {
	t.Parallel()
	got := document{Name: strictjson.Absent}
	require.NoError(t, strictjson.Unmarshal([]byte(`{}`), &got))
	require.Equal(t, strictjson.Absent, got.Name)
	require.Error(t, strictjson.Unmarshal([]byte(`{"name":"`+strictjson.Absent+`"}`), new(document)))
}

func TestOptions(t *testing.T) {
	t.Parallel()
	got := document{Name: "before", Count: 7, Tags: []string{"x"}, Weights: map[string]float64{"y": 1}, Life: 9}
	want := got
	require.NoError(t,
		strictjson.Unmarshal(
			[]byte(`{"name":null,"count":null,"tags":null,"weights":null,"life":null,"parts":null,"at":null}`), &got,
			strictjson.NullIsUnset))
	require.Equal(t, want, got)
	require.EqualError(t, strictjson.Unmarshal([]byte(`null`), &got, strictjson.NullIsUnset),
		"must be an object, not null")

	text := []byte(
		`{"name":"012","count":"-12","factor":"1e3","on":"true","at":"2020-01-01T00:00:00Z","life":"1s","tags":["1"],"weights":{"a":".5"}}`)
	require.NoError(t, strictjson.Unmarshal(text, &got, strictjson.NullIsUnset, strictjson.TextIsPlain))
	require.Equal(t, document{
		Name: "012", Count: -12, Factor: 1000, On: true, At: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC),
		Life: life(time.Second),
		Tags: []string{"1"}, Weights: map[string]float64{"y": 1, "a": .5},
	}, got)
	for text, want := range map[string]string{
		`{"count":"two"}`:        `count: must be an integer, not "two"`,
		`{"count":"1e3"}`:        `count: must be an integer, not "1e3"`,
		`{"on":"maybe"}`:         `on: must be true or false, not "maybe"`,
		`{"factor":"NaN"}`:       `factor: must be a number, not "NaN"`,
		`{"factor":"1e999"}`:     `factor: must be a number, not "1e999"`,
		`{"weights":{"a":"Inf"}`: `weights.a: must be a number, not "Inf"`,
		`{"count":{}}`:           `count: must be an integer, not an object`,
	} {
		require.EqualError(t, strictjson.Unmarshal([]byte(text), new(document), strictjson.TextIsPlain), want)
	}
}

func TestDeepNesting(t *testing.T) {
	t.Parallel()
	nest := func(depth int) []byte {
		return []byte(`{"kept":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + `}`)
	}
	require.NoError(t, strictjson.Unmarshal(nest(9999), new(document)))
	err := strictjson.Unmarshal(nest(10_000), new(document))
	var refused *strictjson.Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "invalid JSON: exceeded max depth", refused.Reason)
	require.True(t, strings.HasPrefix(refused.Pointer, "/kept/0/0"))
	require.LessOrEqual(t, len(refused.Pointer), 256, "a pointer into deep JSON is cut")
}

// FuzzUnmarshal checks that encoding/json decodes the same from what is accepted, that a null elsewhere in the text
// changes nothing, and that the rest is explained.
func FuzzUnmarshal(f *testing.F) {
	for _, s := range []string{
		``, `{}`, `{"name":"a","count":1}`, `{"tags":["\ud83d"]}`, `{"own":{"a":null}}`, "{\"name\":\"\xff\"}",
		`{"name":"a","name":"b"}`,
		`{"weights":{"a":1e999}}`, `{"common":"c"} {}`, `{"factor":-0}`,
	} {
		f.Add([]byte(s))
	}
	type fuzzed struct {
		Name    string                     `json:"name"`
		Count   int                        `json:"count"`
		Factor  float64                    `json:"factor"`
		Tags    []string                   `json:"tags"`
		Weights map[string]float64         `json:"weights"`
		Own     map[string]json.RawMessage `json:"own"`
		Kept    json.RawMessage            `json:"kept"`
		shared
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		before := bytes.Clone(text)
		var got, want fuzzed
		err := strictjson.Unmarshal(text, &got)
		require.Equal(t, before, text, "the text is only read")
		var beside struct {
			Null json.RawMessage `json:"null"`
			Text fuzzed          `json:"text"`
		}
		if json.Valid(text) {
			errBeside := strictjson.Unmarshal(fmt.Appendf(nil, `{"null":null,"text":%s}`, text), &beside)
			require.Equal(t, err == nil, errBeside == nil, "%v, but beside a null %v", err, errBeside)
		}
		if err != nil {
			var refused *strictjson.Error
			require.ErrorAs(t, err, &refused)
			require.NotEmpty(t, refused.Reason)
			require.True(t, refused.Offset >= 0 && refused.Offset <= int64(len(text)))
			return
		}
		require.True(t, utf8.Valid(text))
		require.NoError(t, json.Unmarshal(text, &want))
		require.Equal(t, want, got)
		require.Equal(t, want, beside.Text)
	})
}

func TestLocate(t *testing.T) {
	t.Parallel()
	const text = ` {"a": {"b/c" : [1, "x", {"d":null}]},"e":true}`
	for pointer, want := range map[string]string{"": "{", "/a": `{"b/c`, "/a/b~1c/0": "1,", "/a/b~1c/1": `"x"`,
		"/a/b~1c/2/d": "null", "/e": "true", "/none": `{"a"`, "/a/b~1c/9/x": "[1,", "/a/b~1c/2/z": `{"d"`} {
		at := strictjson.Locate([]byte(text), pointer)
		require.True(t, strings.HasPrefix(strings.TrimSpace(text[at:]), want), "%s: %q", pointer, text[at:])
		require.NotContains(t, " :", text[at:at+1], pointer)
	}
	require.EqualValues(t, -1, strictjson.Locate([]byte(" "), "/a/b"), "there is no value")
	require.EqualValues(t, 0, strictjson.Locate([]byte(`{"a":1`), "/b"))
}
