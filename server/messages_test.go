package server_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/server"
	"github.com/tidemark-dev/tidemark/wire"
)

func TestPublish(t *testing.T) {
	t.Parallel()
	h := start(t)
	const path = "/v1/channels/c/messages"

	h.do("POST", path, `{"id":"a","content":{"n":1}}`).is(201, `{"channel":"c","id":"a","clock":1,"duplicate":false}`)
	h.do("POST", path, `{"id":"a","content":"another"}`).is(200, `{"channel":"c","id":"a","clock":1,"duplicate":true}`)

	made := decode[wire.Published](h.do("POST", path, `{"content":null}`))
	_, err := ulid.ParseStrict(made.ID)
	require.NoError(t, err)
	require.EqualValues(t, 2, made.Clock)
}

func TestPublishBatch(t *testing.T) {
	t.Parallel()
	h := start(t)
	const path = "/v1/channels/c/messages"

	h.do("POST", path, `[{"id":"a","content":1}]`).is(201, `[{"channel":"c","id":"a","clock":1,"duplicate":false}]`)
	h.do("POST", path, `[{"id":"a","content":1},{"id":"b","content":2},{"id":"b","content":3}]`).is(201,
		`[{"channel":"c","id":"a","clock":1,"duplicate":true},{"channel":"c","id":"b","clock":2,"duplicate":false},`+
			`{"channel":"c","id":"b","clock":2,"duplicate":true}]`)
	h.do("POST", path, `[{"id":"b","content":2},{"id":"a","content":1}]`).is(200,
		`[{"channel":"c","id":"b","clock":2,"duplicate":true},{"channel":"c","id":"a","clock":1,"duplicate":true}]`)
}

func TestPutMessage(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.do("PUT", "/v1/channels/c/messages/a", `{"n":1}`).is(201, `{"channel":"c","id":"a","clock":1,"duplicate":false}`)
	h.do("PUT", "/v1/channels/c/messages/a", `{"n":2}`).is(200, `{"channel":"c","id":"a","clock":1,"duplicate":true}`)
	h.do("PUT", "/v1/channels/c/messages/%61%3Ab", `2`).is(201, `{"channel":"c","id":"a:b","clock":2,"duplicate":false}`)
}

func TestContentIsKeptByteForByte(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.subscribe("c", "s")
	contents := []string{
		`{ "a" : [ 1,2 , {"b":null} ] }`, `"<&>\u0041\/é€😀"`, `1.50e+003`, `9007199254740993`, "[\n\t1\r\n]", `""`, `null`, `{"\u0061":1,"":2}`,
		`"cut \ud83d"`, `{"\uDE00":"\ud83d\ud83d x"}`, // half of a surrogate pair, as JavaScript writes it
	}
	for i, content := range contents {
		require.Equal(t, 201, h.do("POST", "/v1/channels/c/messages", fmt.Sprintf(`{"id":"a%d", "content" :  %s }`, i, content)).status)
		require.Equal(t, 201, h.do("PUT", fmt.Sprintf("/v1/channels/c/messages/b%d", i), " "+content+"\n").status)
	}
	got := h.fetch("c", "s")
	require.Len(t, got.Messages, 2*len(contents))
	for i, m := range got.Messages {
		require.Equal(t, contents[i/2], string(m.Content))
		require.False(t, m.PublishedAt.IsZero())
	}
}

func TestContentTypeIsNotLookedAt(t *testing.T) {
	t.Parallel()
	h := start(t)
	for i, contentType := range []string{"application/x-www-form-urlencoded", "text/plain", "image/png", "application/json; charset=latin1", "?"} {
		got := h.do("POST", "/v1/channels/c/messages", fmt.Sprintf(`{"id":"m%d","content":1}`, i), header{"Content-Type", contentType})
		require.Equal(t, 201, got.status)
	}
}

func TestBodyLimit(t *testing.T) {
	t.Parallel()
	const limit = 2000
	h := start(t, func(s *setup) { s.Limits.MaxBodyBytes = limit })
	const path = "/v1/channels/c/messages"
	body := func(size int) string {
		const frame = `[{"id":"a","content":1}]`
		return frame + strings.Repeat(" ", size-len(frame))
	}
	require.Equal(t, 201, h.do("POST", path, body(limit)).status)
	h.do("POST", path, body(limit+1)).problem(413, fault.SlugBodyTooLarge)

	// Without a length that is told beforehand.
	got, err := h.try(t.Context(), "POST", path, io.MultiReader(strings.NewReader(body(limit))))
	require.NoError(t, err)
	require.Equal(t, 200, got.status)
	got, err = h.try(t.Context(), "POST", path, io.MultiReader(strings.NewReader(body(limit+1))))
	require.NoError(t, err)
	got.problem(413, fault.SlugBodyTooLarge)

	h.do("PUT", "/channel/c/message/b", body(limit+1)).oldError(413, "")
	require.EqualValues(t, 1, decode[wire.Description](h.do("GET", "/v1/channels/c", "")).Clock, "what is refused changes nothing")
}

func TestLargeBodiesComeInWhole(t *testing.T) {
	t.Parallel()
	h := start(t)
	batch := bytes.NewBufferString("[")
	const n = 900 // of 300 bytes: more than a buffer that is kept
	for i := range n {
		if i > 0 {
			batch.WriteByte(',')
		}
		fmt.Fprintf(batch, `{"id":"m%d","content":"%s"}`, i, strings.Repeat("x", 300))
	}
	batch.WriteByte(']')
	for status, body := range map[int]io.Reader{201: bytes.NewReader(batch.Bytes()), 200: io.MultiReader(bytes.NewReader(batch.Bytes()))} {
		got, err := h.try(t.Context(), "POST", "/v1/channels/c"+fmt.Sprint(status)+"/messages", body)
		require.NoError(t, err)
		require.Equal(t, 201, got.status, "%s", got.body)
		require.Len(t, decode[[]wire.Published](got), n)
	}
}

// TestContentsDontMix publishes from many goroutines, whose bodies go through the same buffers.
func TestContentsDontMix(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.subscribe("c", "s")
	const publishers, each = 8, 25
	done := make(chan error, publishers)
	for p := range publishers {
		go func() {
			for i := range each {
				id := fmt.Sprintf("p%d-%d", p, i)
				resp, err := h.client.Post(h.url+"/v1/channels/c/messages", "", strings.NewReader(
					fmt.Sprintf(`{"id":%q,"content":%q}`, id, strings.Repeat(id, 1+i))))
				if err == nil {
					_, err = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
				}
				if err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range publishers {
		require.NoError(t, <-done)
	}
	got := decode[wire.Delivery](h.do("GET", "/v1/channels/c/subscribers/s/messages?max=1000", ""))
	require.Len(t, got.Messages, publishers*each)
	for _, m := range got.Messages {
		var p, i int
		_, err := fmt.Sscanf(m.ID, "p%d-%d", &p, &i)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("%q", strings.Repeat(m.ID, 1+i)), string(m.Content))
	}
}

func TestTruncatedBody(t *testing.T) {
	t.Parallel()
	h := start(t)
	answer := h.raw("POST /v1/channels/c/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{\"content\":1")
	require.Equal(t, http.StatusBadRequest, answer.status)
	answer.problem(400, fault.SlugInvalidBody)
	h.do("GET", "/v1/channels/c", "").problem(404, fault.SlugNoChannel)
}

func TestDefaultBodyLimit(t *testing.T) {
	t.Parallel()
	h := start(t)
	require.Equal(t, server.DefaultMaxBodyBytes, decode[wire.Info](h.do("GET", "/v1/info", "")).Limits.MaxBodyBytes)
}
