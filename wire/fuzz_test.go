package wire_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/wire"
)

var seeds = []string{
	``, ` `, `{}`, `[]`, `null`, `{"content":1}`, `{"id":"a","content":{"x":[1,2]}}`, `[{"content":1},{"id":"b","content":"c"}]`,
	`{"content":1,"content":2}`, "{\"content\":\"\xff\"}", `{"content":"\ud800"}`, `{"content":[[[[[[]]]]]]}`, `{"content":1} {}`,
	`{"receiptHandle":"abc","max":5,"wait":"20s"}`, `{"receiptHandle":"abc","wait":20}`, `{"from":"earliest"}`, `{"from":-9007199254740991}`,
	`{"content":{"\ud83d":["\ude00","\ud83dx"]}}`, `{"id":"\ud83d","content":1}`, `{"content":{"\ud83d":1,"\ude00":2}}`, "{\"content\":\"\\ud83d\xff\"}",
	`{"\u0069d":"a","content":1}`, `{"id":"\"\\","content":1e999}`,
}

func seed(f *testing.F) {
	f.Helper()
	for _, s := range seeds {
		f.Add([]byte(s))
	}
}

// valid checks that what was accepted is JSON to encoding/json too, and UTF-8; what was refused is explained.
func valid(t *testing.T, body []byte, err error) bool {
	t.Helper()
	if err != nil {
		var refused *wire.InputError
		require.ErrorAs(t, err, &refused)
		require.NotEmpty(t, refused.Detail)
		require.LessOrEqual(t, refused.Offset, int64(len(body)))
		require.NotEmpty(t, refused.Slug.Title())
		return false
	}
	require.True(t, json.Valid(body))
	require.True(t, utf8.Valid(body))
	return true
}

func FuzzAppendDrafts(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		before := bytes.Clone(body)
		drafts, batch, err := wire.AppendDrafts(nil, body)
		require.Equal(t, before, body, "the body is only read")
		if !valid(t, body, err) {
			return
		}
		want := make([]wire.Draft, 1)
		if batch {
			require.NoError(t, json.Unmarshal(body, &want))
		} else {
			require.NoError(t, json.Unmarshal(body, &want[0]))
		}
		require.Equal(t, want, drafts)
		for _, d := range drafts {
			require.True(t, bytes.Contains(body, d.Content))
		}
	})
}

func FuzzDecodeContent(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		content, err := wire.DecodeContent(body)
		if valid(t, body, err) {
			require.Equal(t, bytes.Trim(body, " \t\r\n"), content)
		} else if json.Valid(body) && utf8.Valid(body) {
			require.Regexp(t, "duplicate member$|exceeded max depth$", err.Error(), "all other JSON is accepted")
		}
	})
}

func FuzzDecodeSubscribe(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := wire.DecodeSubscribe(body)
		decodedAlike(t, body, got, err)
	})
}

func FuzzDecodeAck(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := wire.DecodeAck(body)
		decodedAlike(t, body, got, err)
	})
}

func FuzzDecodeNext(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := wire.DecodeNext(body)
		if err == nil && bytes.Contains(body, []byte("wait")) { // encoding/json doesn't know seconds
			return
		}
		decodedAlike(t, body, got, err)
	})
}

func FuzzDecodeNewTicket(f *testing.F) {
	seed(f)
	for _, s := range []string{
		`{"queue":"duel","id":"a","ttl":"5m","searchFields":{"tags":["a"],"doubleArgs":{"b":1.5,"c":"Infinity"},"stringArgs":{"d":"e"}}}`,
		`{"criteria":[{"name":"s","minValue":1,"maxValue":2e2}],"statistics":[{"name":"s","value":-0}],"numTeams":2,"teamSize":1}`,
		`{"extensions":{"a":{ "b":[null]}},"persistentField":{"c":"d"}}`, `{"searchFields":{"doubleArgs":{"a":1e-999,"a\n":"-Infinity"}}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := wire.DecodeNewTicket(body)
		if bytes.Contains(body, []byte("NaN")) { // which isn't equal to itself
			valid(t, body, err)
			return
		}
		decodedAlike(t, body, got, err)
	})
}

// decodedAlike checks that encoding/json decodes the same from what was accepted.
func decodedAlike[T any](t *testing.T, body []byte, got T, err error) {
	t.Helper()
	if err == nil && len(bytes.Trim(body, " \t\r\n")) == 0 {
		return
	}
	if valid(t, body, err) {
		var want T
		require.NoError(t, json.Unmarshal(body, &want))
		require.Equal(t, want, got)
	}
}

func FuzzParseWait(f *testing.F) {
	for _, s := range []string{"", "20s", "20", "-1", "1h1m", "9223372036", "9223372037"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		wait, err := wire.ParseWait(text)
		if err == nil {
			require.GreaterOrEqual(t, wait, time.Duration(0))
		}
	})
}
