package wire_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

// decoders are the decoders of requests. Each returns what it decoded, and a pointer to decode the same into.
var decoders = map[string]func(body []byte) (got, again any, err error){
	"content": func(body []byte) (any, any, error) {
		got, err := wire.DecodeContent(body)
		return (*json.RawMessage)(&got), new(json.RawMessage), err
	},
	"subscribe": func(body []byte) (any, any, error) {
		got, err := wire.DecodeSubscribe(body)
		return &got, &wire.SubscribeRequest{}, err
	},
	"ack": func(body []byte) (any, any, error) {
		got, err := wire.DecodeAck(body)
		return &got, &wire.AckRequest{}, err
	},
	"next": func(body []byte) (any, any, error) {
		got, err := wire.DecodeNext(body)
		return &got, &wire.NextRequest{}, err
	},
	"fetch": func(body []byte) (any, any, error) {
		got, err := wire.DecodeFetch(body)
		return &got, &wire.FetchRequest{}, err
	},
	"key": func(body []byte) (any, any, error) {
		got, err := wire.DecodeNewKey(body)
		return &got, &client.NewKey{}, err
	},
	"revocation": func(body []byte) (any, any, error) {
		got, err := wire.DecodeNewRevocation(body)
		return &got, &client.NewRevocation{}, err
	},
	"ticket": func(body []byte) (any, any, error) {
		got, err := wire.DecodeNewTicket(body)
		return &got, &wire.NewTicket{}, err
	},
}

func explained(t *testing.T, body []byte, err error) {
	t.Helper()
	var refused *wire.InputError
	require.ErrorAs(t, err, &refused)
	require.NotEmpty(t, refused.Detail)
	require.LessOrEqual(t, refused.Offset, int64(len(body)))
	require.NotEmpty(t, refused.Slug.Title())
}

// FuzzDecode checks that encoding/json decodes the same from accepted bodies, and that errors have a reason. Package
// strictjson fuzzes the rules of strict JSON.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		``, `{}`, `null`, `{"receiptHandle":"abc","max":5,"wait":"20s"}`, `{"receiptHandle":"abc","wait":20}`,
		`{"from":"earliest"}`,
		`{"from":-9007199254740991}`,
		`{"from":[{"channel":"a","subscriber":"\u0062"},{"subscriber":"","receiptHandle":"c","channel":""}],"max":1,"wait":"1s"}`,
		`{"from":[]}`, `{"content":{"\ud83d":["\ude00"]}}`, `{"id":"\ud83d"}`, `{"a":1,"a":2}`,
		`{"queue":"duel","id":"a","ttl":"5m","searchFields":{"tags":["a"],"doubleArgs":{"b":1.5,"c":"Infinity"},"stringArgs":{"d":"e"}}}`,
		`{"criteria":[{"name":"s","minValue":1,"maxValue":2e2}],"statistics":[{"name":"s","value":-0}],"numTeams":2,"teamSize":1}`,
		`{"extensions":{"a":{ "b":[null]}},"persistentField":{"c":"d"}}`,
		`{"description":"a","grants":[{"actions":["publish"]}],"limits":{},"expires":"2030-01-31T12:00:00.5Z"}`,
		`{"jti":"a","subject":"b","until":"2030-01-31T12:00:00Z"}`,
		`{"searchFields":{"doubleArgs":{"a":1e-999,"a\n":"-Infinity"}}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for name, decode := range decoders {
			got, again, err := decode(body)
			switch {
			case err != nil:
				explained(t, body, err)
				continue
			case len(bytes.TrimSpace(body)) == 0, bytes.Contains(body, []byte("NaN")): // NaN isn't equal to itself
				continue
			}
			require.NoError(t, json.Unmarshal(body, again), name)
			require.Equal(t, again, got, name)
		}
	})
}

func FuzzDecodeDrafts(f *testing.F) {
	for _, s := range []string{
		``, `[]`, `{"content":1}`, `{"id":"a","content":{"x":[1,2]}}`, `[{"content":1},{"id":"b","content":"c"}]`,
		`{"content":1,"content":2}`, "{\"content\":\"\xff\"}", `{"content":"\ud800"}`, `{"content":1} {}`,
		`{"\u0069d":"a","content":1}`, `{"contentType":"text/plain","content":"aGk="}`,
		`[{"contentType":"a/b; c=d","content":""},{"contentType":"application/json","content":1}]`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		before := bytes.Clone(body)
		drafts, batch, err := wire.DecodeDrafts(body)
		require.Equal(t, before, body, "the body is only read")
		if err != nil {
			explained(t, body, err)
			return
		}
		want := make([]client.Draft, 1)
		if batch {
			require.NoError(t, json.Unmarshal(body, &want))
		} else {
			require.NoError(t, json.Unmarshal(body, &want[0]))
		}
		require.Len(t, drafts, len(want))
		for i, d := range drafts {
			if d.ContentType != "" {
				require.True(t, channel.IsContentType(d.ContentType))
				m := client.Message{ContentType: d.ContentType, Content: want[i].Content}
				content, err := m.Bytes()
				require.NoError(t, err)
				require.Equal(t, content, d.Content)
				continue
			}
			require.Equal(t, channel.Draft{ID: want[i].ID, Content: want[i].Content}, d)
			require.True(t, bytes.Contains(body, d.Content))
		}
	})
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

// FuzzDecodeFrame checks that a frame of a WebSocket that is accepted is JSON with its ref, and that errors have a
// reason.
func FuzzDecodeFrame(f *testing.F) {
	for _, seed := range []string{
		`{"type":"authenticate","ref":1,"token":"t"}`, `{"type":"ping","ref":9007199254740991}`, `[]`, `{"ref":1,"ref":2}`,
		`{"type":"subscribe","ref":2,"channel":"c","subscriber":"s","window":1,"resume":"r"}`, "\xff", `{"type":"x"}`,
		`{"type":"ack","channel":"c","subscriber":"s","receiptHandle":"r"}`, `{"type":"publish","ref":-1}`,
		`{"type":"publish","ref":5,"channel":"c","id":"m","content":{"a":[1, null]}}`,
		`{"type":"publish","ref":5,"channel":"c","contentType":"a/b","content":"AP8="}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := wire.DecodeFrame(text)
		if err != nil {
			explained(t, text, err)
			require.LessOrEqual(t, wire.RefOf(text), uint64(wire.MaxRef))
			return
		}
		isJSON, isUTF8 := wire.IsJSON(text)
		require.True(t, isJSON && isUTF8)
		require.Equal(t, wire.RefOf(text), got.Ref)
		require.Contains(t, wire.ClientFrames(), got.Type)
		isContent := got.Draft.ContentType != "" || json.Valid(got.Draft.Content)
		require.Equal(t, got.Type == wire.FramePublish, isContent)
	})
}
