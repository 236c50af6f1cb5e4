package server_test

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/test/servertest"
)

// headers returns headers from names and values in turns.
func headers(pairs ...string) (all []servertest.Header) {
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, servertest.Header{Name: pairs[i], Value: pairs[i+1]})
	}
	return all
}

const anyStream = "/v1/stream/chat/7"

// TestBadDurableStreams: each bad input gets a clear error, and nothing is stored. npm's conformance suite of the
// protocol, which `make e2e` runs, tests what is valid.
func TestBadDurableStreams(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	next := h.Do("PUT", anyStream, "[1,2]", headers("Content-Type", "application/json")...).With(201).Header.Get(
		"Stream-Next-Offset")
	other := h.Do("PUT", "/v1/stream/other", "x", headers("Content-Type", "text/plain")...).With(201).Header.Get(
		"Stream-Next-Offset")
	h.Do("POST", "/v1/channels/lobby/messages", `{"content":1}`).With(201)
	json := []string{"Content-Type", "application/json"}
	h.Do("POST", anyStream, "3", headers("Content-Type", "application/json", "Producer-Id", "q", "Producer-Epoch", "1",
		"Producer-Seq", "0")...).With(200)
	before := h.Keys()

	text := []string{"Content-Type", "text/plain"}
	with := func(of []string, more ...string) []string { return append(append([]string{}, of...), more...) }
	long := strings.Repeat("x", 300)
	ahead := next[:len(next)-1] + "9" // by some messages
	for name, bad := range map[string]struct {
		call    string
		headers []string
		body    string
		status  int
		slug    fault.Slug
		field   string
	}{
		"half a producer": {"POST " + anyStream, with(json, "Producer-Id", "p"),
			"1", 400, fault.SlugInvalidHeader, "Producer-Id"},
		"no producer ID": {"POST " + anyStream, with(json, "Producer-Epoch", "0", "Producer-Seq", "0"),
			"1", 400, fault.SlugInvalidHeader, "Producer-Id"},
		"empty producer ID": {"POST " + anyStream, with(json, "Producer-Id", "", "Producer-Epoch", "0", "Producer-Seq", "0"),
			"1", 400, fault.SlugInvalidHeader, "Producer-Id"},
		"long producer ID": {"POST " + anyStream, with(json, "Producer-Id", long, "Producer-Epoch", "0", "Producer-Seq", "0"),
			"1", 400, fault.SlugInvalidProducer, "/producer/id"},
		"negative epoch": {"POST " + anyStream, with(json, "Producer-Id", "p", "Producer-Epoch", "-1", "Producer-Seq", "0"),
			"1", 400, fault.SlugInvalidHeader, "Producer-Epoch"},
		"huge epoch": {"POST " + anyStream, with(json, "Producer-Id", "p", "Producer-Epoch", "9007199254740992", "Producer-Seq", "0"),
			"1", 400, fault.SlugInvalidHeader, "Producer-Epoch"},
		"endless sequence": {"POST " + anyStream, with(json, "Producer-Id", "p", "Producer-Epoch", "0", "Producer-Seq", strings.Repeat("9", 400)),
			"1", 400, fault.SlugInvalidHeader, "Producer-Seq"},
		"sequence in hexadecimal": {"POST " + anyStream, with(json, "Producer-Id", "p", "Producer-Epoch", "0", "Producer-Seq", "0x1"),
			"1", 400, fault.SlugInvalidHeader, "Producer-Seq"},
		"epoch that begins at 1": {"POST " + anyStream, with(json, "Producer-Id", "q", "Producer-Epoch", "2", "Producer-Seq", "1"),
			"1", 400, fault.SlugProducerStart, ""},
		"earlier epoch": {"POST " + anyStream, with(json, "Producer-Id", "q", "Producer-Epoch", "0", "Producer-Seq", "0"),
			"1", 403, fault.SlugProducerFenced, ""},
		"gap": {"POST " + anyStream, with(json, "Producer-Id", "p", "Producer-Epoch", "0", "Producer-Seq", "1"),
			"1", 409, fault.SlugProducerGap, ""},
		"long order": {"POST " + anyStream, with(json, "Stream-Seq", long),
			"1", 400, fault.SlugInvalidHeader, "Stream-Seq"},
		"empty body": {"POST " + anyStream, json,
			"", 400, fault.SlugInvalidHeader, "Stream-Closed"},
		"closed but false": {"POST " + anyStream, with(json, "Stream-Closed", "false"),
			"", 400, fault.SlugInvalidHeader, "Stream-Closed"},
		"no type": {"POST " + anyStream, []string{"Content-Type", ""},
			"1", 400, fault.SlugInvalidHeader, "Content-Type"},
		"no media type": {"POST " + anyStream, []string{"Content-Type", "nonsense"},
			"1", 400, fault.SlugContentType, "/contentType"},
		"another type": {"POST " + anyStream, text,
			"1", 409, fault.SlugOtherContentType, ""},
		"empty array": {"POST " + anyStream, json,
			"[]", 400, fault.SlugInvalidHeader, "Content-Type"},
		"JSON cut off": {"POST " + anyStream, json,
			`[{"a":1},{"b"`, 400, fault.SlugInvalidContent, "/1/b"},
		"two values": {"POST " + anyStream, json,
			`1 2`, 400, fault.SlugInvalidContent, ""},
		"too many values": {"POST " + anyStream, json,
			"[" + strings.Repeat("1,", 1000) + "1]", 413, fault.SlugBatchTooLarge, ""},
		"too large": {"POST " + anyStream, json,
			`"` + strings.Repeat("x", servertest.MaxMessageBytes) + `"`, 413, fault.SlugMessageTooLarge, "/content"},
		"far too large": {"POST " + anyStream, json,
			strings.Repeat(" ", 2<<20), 413, fault.SlugBodyTooLarge, ""},
		"compressed": {"POST " + anyStream, with(json, "Content-Encoding", "gzip"),
			"1", 400, fault.SlugInvalidBody, ""},
		"no stream": {"POST /v1/stream/none", json,
			"1", 404, fault.SlugNoChannel, ""},
		"close no stream": {"POST /v1/stream/none", with(json, "Stream-Closed", "true"),
			"", 404, fault.SlugNoChannel, ""},
		"read no stream": {"GET /v1/stream/none", nil,
			"", 404, fault.SlugNoChannel, ""},
		"follow no stream": {"GET /v1/stream/none?offset=now&live=sse", nil,
			"", 404, fault.SlugNoChannel, ""},
		"delete no stream": {"DELETE /v1/stream/none", nil,
			"", 404, fault.SlugNoChannel, ""},
		"delete a plain channel": {"DELETE /v1/stream/lobby", nil,
			"", 405, fault.SlugMethod, ""},
		"TTL of 0": {"PUT /v1/stream/new", with(text, "Stream-TTL", "0"),
			"", 400, fault.SlugInvalidHeader, "Stream-Ttl"},
		"TTL with zeros": {"PUT /v1/stream/new", with(text, "Stream-TTL", "010"),
			"", 400, fault.SlugInvalidHeader, "Stream-Ttl"},
		"TTL of ages": {"PUT /v1/stream/new", with(text, "Stream-TTL", "315360001"),
			"", 400, fault.SlugInvalidHeader, "Stream-Ttl"},
		"TTL without bounds": {"PUT /v1/stream/new", with(text, "Stream-TTL", strings.Repeat("9", 100)),
			"", 400, fault.SlugInvalidHeader, "Stream-Ttl"},
		"end and TTL": {"PUT /v1/stream/new", with(text, "Stream-TTL", "1", "Stream-Expires-At", "2999-01-01T00:00:00Z"),
			"", 400, fault.SlugInvalidHeader, "Stream-Ttl"},
		"end without a zone": {"PUT /v1/stream/new", with(text, "Stream-Expires-At", "2026-12-01T00:00:00"),
			"", 400, fault.SlugInvalidHeader, "Stream-Expires-At"},
		"end in the past": {"PUT /v1/stream/new", with(text, "Stream-Expires-At", "2001-01-01T00:00:00Z"),
			"", 400, fault.SlugInvalidProperties, "/ends"},
		"end in ages": {"PUT /v1/stream/new", with(text, "Stream-Expires-At", "2999-01-01T00:00:00Z"),
			"", 400, fault.SlugInvalidProperties, "/ends"},
		"long type": {"PUT /v1/stream/new", []string{"Content-Type", "text/" + long},
			"", 400, fault.SlugContentType, "/contentType"},
		"first JSON cut off": {"PUT /v1/stream/new", json,
			"[1,", 400, fault.SlugInvalidContent, ""},
		"fork": {"PUT /v1/stream/new", with(text, "Stream-Forked-From", anyStream),
			"", 501, fault.SlugNotServed, "Stream-Forked-From"},
		"fork of nothing": {"PUT /v1/stream/new", with(text, "Stream-Fork-Sub-Offset", "0"),
			"", 400, fault.SlugInvalidHeader, "Stream-Fork-Sub-Offset"},
		"other type": {"PUT " + anyStream, text,
			"", 409, fault.SlugChannelExists, ""},
		"other TTL": {"PUT " + anyStream, with(json, "Stream-TTL", "9"),
			"", 409, fault.SlugChannelExists, ""},
		"other closure": {"PUT " + anyStream, with(json, "Stream-Closed", "true"),
			"", 409, fault.SlugChannelExists, ""},
		"plain channel": {"PUT /v1/stream/lobby", json,
			"", 409, fault.SlugChannelExists, ""},
		"offset of another stream": {"GET " + anyStream + "?offset=" + other, nil,
			"", 410, fault.SlugOffsetGone, "offset"},
		"offset ahead": {"GET " + anyStream + "?offset=" + ahead, nil,
			"", 410, fault.SlugOffsetGone, "offset"},
		"offset ahead, followed": {"GET " + anyStream + "?live=sse&offset=" + ahead, nil,
			"", 410, fault.SlugOffsetGone, "offset"},
		"offset cut off": {"GET " + anyStream + "?offset=" + next[:30], nil,
			"", 400, fault.SlugInvalidPosition, "offset"},
		"offset in lower case": {"GET " + anyStream + "?offset=" + strings.ToLower(next), nil,
			"", 400, fault.SlugInvalidPosition, "offset"},
		"offset with more": {"GET " + anyStream + "?offset=" + next + "_", nil,
			"", 400, fault.SlugInvalidPosition, "offset"},
		"long offset": {"GET " + anyStream + "?offset=" + strings.Repeat("0", 5000), nil, "", 400, fault.SlugInvalidPosition, "offset"},
		"empty offset": {"GET " + anyStream + "?offset=", nil,
			"", 400, fault.SlugInvalidPosition, "offset"},
		"two offsets": {"GET " + anyStream + "?offset=-1&offset=now", nil,
			"", 400, fault.SlugInvalidQuery, "offset"},
		"broken escape": {"GET " + anyStream + "?offset=%zz", nil,
			"", 400, fault.SlugInvalidQuery, "offset"},
		"live without an offset": {"GET " + anyStream + "?live=sse", nil,
			"", 400, fault.SlugInvalidQuery, "offset"},
		"another live": {"GET " + anyStream + "?live=websocket&offset=-1", nil,
			"", 400, fault.SlugInvalidQuery, "live"},
		"subscriptions": {"PUT /v1/stream/__ds/subscriptions/a", json,
			"{}", 501, fault.SlugNotServed, ""},
		"subscriptions, read": {"GET /v1/stream/__ds/jwks.json", nil,
			"", 501, fault.SlugNotServed, ""},
		"subscriptions, deleted": {"DELETE /v1/stream/__ds", nil,
			"", 501, fault.SlugNotServed, ""},
		"no path": {"PUT /v1/stream/", text,
			"", 404, fault.SlugNoPath, ""},
		"slash at the end": {"PUT /v1/stream/a/", text,
			"", 400, fault.SlugInvalidChannel, "channel"},
		"empty segment": {"PUT /v1/stream/a//b", text,
			"", 400, fault.SlugInvalidChannel, "channel"},
		"climbs": {"PUT /v1/stream/a/../b", text,
			"", 400, fault.SlugInvalidChannel, "channel"},
		"climbs, escaped": {"PUT /v1/stream/a/%2e%2e/b", text,
			"", 400, fault.SlugInvalidChannel, "channel"},
		"escaped slash": {"PUT /v1/stream/a%2Fb", text,
			"", 400, fault.SlugInvalidChannel, "channel"},
		"escaped slash, small": {"GET /v1/stream/chat%2f7", nil,
			"", 400, fault.SlugInvalidChannel, "channel"},
		"NUL": {"PUT /v1/stream/a%00b", text,
			"", 400, fault.SlugInvalidChannel, "channel"},
		"brace": {"PUT /v1/stream/%7Ba%7D", text,
			"", 400, fault.SlugInvalidChannel, "channel"},
		"long path": {"PUT /v1/stream/" + longChannel, text,
			"", 400, fault.SlugInvalidChannel, "channel"},
		"another method": {"PATCH " + anyStream, text,
			"", 405, fault.SlugMethod, ""},
	} {
		method, path, _ := strings.Cut(bad.call, " ")
		got := h.Do(method, path, bad.body, headers(bad.headers...)...)
		require.Equal(t, bad.status, got.Status, "%s: %s", name, got.Body)
		p := got.Problem(bad.status, bad.slug)
		assert.Equal(t, bad.field, p.Field, name)
		require.Less(t, len(p.Detail), 400, name)
	}
	require.Equal(t, before, h.Keys())
}

// TestDurableHeadersTwice: a header with one meaning isn't taken from two.
func TestDurableHeadersTwice(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	for _, name := range []string{"Content-Type", "Stream-TTL", "Stream-Expires-At"} {
		require.Contains(t, string(h.Raw("PUT /v1/stream/a HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"+name+": 5\r\n"+
			name+": 7\r\n\r\n").Body), "is given twice", name)
	}
	require.Empty(t, h.Keys())
}

// TestDurableBodyWithoutEnd: a chunked body beyond the limit is refused while it is being sent.
func TestDurableBodyWithoutEnd(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	h.Do("PUT", anyStream, "", headers("Content-Type", "text/plain")...).With(201)
	before := h.Keys()
	got, err := h.Try(t.Context(), "POST", anyStream, endlessBody{}, headers("Content-Type", "text/plain")...)
	if err == nil {
		got.Problem(413, fault.SlugBodyTooLarge)
	}
	require.Equal(t, before, h.Keys())
}

type endlessBody struct{}

// Read returns zeros.
func (endlessBody) Read(p []byte) (int, error) { return len(p), nil }

// TestDurableStreamIsAChannel: what is appended is read by subscribers, and what is published by readers of the stream.
func TestDurableStreamIsAChannel(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	h.Do("PUT", anyStream, `[{"a":1}]`, headers("Content-Type", "application/json")...).With(201)
	h.Do("PUT", "/v1/channels/chat%2F7/subscribers/ann", `{"from":"earliest"}`).With(201)
	h.Do("POST", "/v1/channels/chat%2F7/messages", `{"id":"m","content":[2]}`).With(201)
	h.Do("GET", anyStream, "").Expect(200, `[{"a":1},[2]]`)
	d := h.Fetch("chat%2F7", "ann")
	require.Len(t, d.Messages, 2)
	require.JSONEq(t, `{"a":1}`, string(d.Messages[0].Content))

	h.Publish("lobby", "m", `"plain"`)
	got := h.Do("GET", "/v1/stream/lobby", "")
	got.Expect(200, `["plain"]`)
	require.Equal(t, "application/json", got.Header.Get("Content-Type"))
}

// TestDurableFollow: what arrives is sent with the offset after it, and then the end.
func TestDurableFollow(t *testing.T) {
	t.Parallel()
	for contentType, encode := range map[string]func(string) string{
		"text/plain":   func(s string) string { return s },
		"image/x-test": func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
	} {
		h := servertest.Start(t)
		of := headers("Content-Type", contentType)
		h.Do("PUT", anyStream, "first", of...).With(201)
		s := openEvents(t, h, anyStream+"?offset=-1&live=sse")
		require.Equal(t, contentType != "text/plain", s.header.Get("Stream-Sse-Data-Encoding") == "base64")
		requireData(t, s, encode("first"))
		next := requireControl(t, s, `"upToDate":true`)
		for _, text := range []string{"second", " with a blank"} {
			h.Do("POST", anyStream, text, of...).With(204)
			requireData(t, s, encode(text))
			at := requireControl(t, s, `"upToDate":true`)
			require.Greater(t, at, next)
			next = at
			h.Do("GET", anyStream+"?offset="+next, "").Expect(200, "")
		}
		h.Do("POST", anyStream, "", append(of, headers("Stream-Closed", "true")...)...).With(204)
		require.Equal(t, next, requireControl(t, s, `"streamClosed":true`))
		for more := true; more; {
			var line string
			line, more = s.line()
			require.Empty(t, line, "the server ends the stream")
		}
	}
}

// requireData reads an event of data. One blank at the beginning of a line isn't part of it, as browsers have it.
func requireData(t *testing.T, s *eventSource, want string) {
	t.Helper()
	for {
		line, ok := s.line()
		require.True(t, ok)
		if line == "event: data" {
			break
		}
		require.NotContains(t, line, "event:")
	}
	line, _ := s.line()
	require.Equal(t, want, strings.TrimPrefix(strings.TrimPrefix(line, "data:"), " "))
}

// requireControl reads a control event, and returns its offset.
func requireControl(t *testing.T, s *eventSource, has string) string {
	t.Helper()
	for {
		line, ok := s.line()
		require.True(t, ok)
		if data, found := strings.CutPrefix(line, "data:{"); found {
			require.Contains(t, data, has)
			_, data, _ = strings.Cut(data, `"streamNextOffset":"`)
			offset, _, _ := strings.Cut(data, `"`)
			return offset
		}
	}
}

// TestDurableLongPoll: a long poll returns what is appended while it waits, and the end.
func TestDurableLongPoll(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	of := headers("Content-Type", "text/plain")
	h.Do("PUT", anyStream, "first", of...).With(201)
	waiting := h.Waiting(t.Context(), 1, "GET "+anyStream+"?offset=now&live=long-poll")
	h.Do("POST", anyStream, "second", of...).With(204)
	got := <-waiting
	got.Expect(200, "second")
	require.NotEmpty(t, got.Header.Get("Stream-Cursor"))
	waiting = h.Waiting(t.Context(), 1, "GET "+anyStream+"?offset=now&live=long-poll")
	h.Do("POST", anyStream, "", headers("Stream-Closed", "true")...).With(204)
	got = <-waiting
	got.Expect(204, "")
	require.Equal(t, "true", got.Header.Get("Stream-Closed"))
}

// TestDurableCaching: shared caches keep only what anybody may read, and an answer changes its tag with the closure.
func TestDurableCaching(t *testing.T) {
	t.Parallel()
	of := headers("Content-Type", "text/plain")
	open := servertest.Start(t)
	open.Do("PUT", anyStream, "first", of...).With(201)
	got := open.Do("GET", anyStream, "")
	require.Equal(t, "public, max-age=60, stale-while-revalidate=300", got.Header.Get("Cache-Control"))
	tag := got.Header.Get("Etag")
	open.Do("GET", anyStream, "", headers("If-None-Match", `"x", W/`+tag)...).Expect(304, "")
	open.Do("POST", anyStream, "", headers("Stream-Closed", "true")...).With(204)
	got = open.Do("GET", anyStream, "", headers("If-None-Match", tag)...)
	got.Expect(200, "first")
	require.Equal(t, "true", got.Header.Get("Stream-Closed"))
	require.Equal(t, "no-store", open.Do("GET", anyStream+"?offset=now", "").Header.Get("Cache-Control"))
	require.Equal(t, "no-store", open.Do("GET", anyStream+"?offset=x", "").Header.Get("Cache-Control"))

	people := &servertest.People{}
	h := servertest.Start(t, servertest.Closed(t, people,
		access.ChannelRule{Pattern: `chat/.*`, Readers: []string{"anonymous"}}))
	people.Add(t, "writer", `[{"actions":["publish"]}]`)
	people.Add(t, "reader", `[{"actions":["subscribe"]}]`)
	h.Do("PUT", anyStream, "first", of...).Problem(401, fault.SlugNoCredential)
	h.Do("PUT", anyStream, "first", append(of, servertest.Bearer("reader"))...).Problem(403, fault.SlugNotGranted)
	h.Do("PUT", anyStream, "first", append(of, servertest.Bearer("writer"))...).With(201)
	h.Do("PUT", "/v1/stream/own", "own", append(of, servertest.Bearer("writer"))...).With(201)
	h.Do("GET", "/v1/stream/own", "", servertest.Bearer("writer")).Problem(403, fault.SlugNotGranted)
	h.Do("DELETE", "/v1/stream/own", "", servertest.Bearer("reader")).Problem(403, fault.SlugNotGranted)
	require.Regexp(t, "^private, ", h.Do("GET", "/v1/stream/own", "", servertest.Bearer("reader")).With(200).Header.Get(
		"Cache-Control"))
	require.Regexp(t, "^public, ", h.Do("GET", anyStream, "").With(200).Header.Get("Cache-Control"))
}

// TestDurableExpired: a reader whose next message has expired learns it, and one from the beginning that it isn't all.
func TestDurableExpired(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	of := headers("Content-Type", "text/plain")
	begin := h.Do("PUT", anyStream, "", of...).With(201).Header.Get("Stream-Next-Offset")
	for _, text := range []string{"a", "b"} {
		h.Do("POST", anyStream, text, of...).With(204)
	}
	h.Do("GET", anyStream+"?offset="+begin, "").Expect(200, "ab")
	_, err := h.Service.Purge(t.Context(), channel.PurgeRequest{Channel: "chat/7",
		Through: channel.From{Start: channel.StartAt, Clock: 1}})
	require.NoError(t, err)
	h.Do("GET", anyStream+"?offset="+begin, "").Problem(http.StatusGone, fault.SlugOffsetGone)
	got := h.Do("GET", anyStream, "")
	got.Expect(200, "b")
	require.Equal(t, "true", got.Header.Get("Stream-Truncated"))
}

// TestDurableStreamsOff: without the option the paths don't exist.
func TestDurableStreamsOff(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t, func(s *servertest.Setup) { s.DurableStreams = "" })
	h.Do("PUT", anyStream, "").Problem(404, fault.SlugNoPath)
	require.Empty(t, h.Keys())
}
