package server_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/wire"
	"github.com/tidemark-dev/tidemark/receipt"
	"github.com/tidemark-dev/tidemark/server"
	"github.com/tidemark-dev/tidemark/test/servertest"
)

// serverEvent is an event as a browser dispatches it.
type serverEvent struct {
	lastID, name, data string
}

// eventSource reads a stream as the HTML standard says.
type eventSource struct {
	t      *testing.T
	header http.Header
	lines  *bufio.Scanner
	lastID string
	retry  string
	pings  int
	fields int // since the last empty line
}

func openEvents(t *testing.T, h *servertest.Harness, path string, headers ...servertest.Header) *eventSource {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.URL+path, http.NoBody)
	require.NoError(t, err)
	for _, one := range headers {
		request.Header.Set(one.Name, one.Value)
	}
	resp, err := h.Client.Do(request)
	require.NoError(t, err)
	t.Cleanup(func() { _ = resp.Body.Close() }) // the stream may have ended
	if resp.StatusCode != http.StatusOK {
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		t.Fatalf("%s: %d %s", path, resp.StatusCode, body)
	}
	s := &eventSource{t: t, header: resp.Header, lines: bufio.NewScanner(resp.Body)}
	s.lines.Buffer(nil, 4<<20)
	return s
}

// ping reads up to the next comment.
func (s *eventSource) ping() {
	s.t.Helper()
	for before := s.pings; s.pings == before; {
		_, ok := s.line()
		require.True(s.t, ok)
	}
}

// line reads a line, and takes comments and fields that aren't of events.
func (s *eventSource) line() (text string, ok bool) {
	if !s.lines.Scan() {
		return "", false
	}
	text = s.lines.Text()
	if strings.HasPrefix(text, ":") {
		s.pings++
	}
	switch name, _, _ := strings.Cut(text, ": "); name {
	case "id", "event", "data":
		s.fields++
	case "retry":
		_, s.retry, _ = strings.Cut(text, ": ")
	}
	if text == "" {
		require.NotZero(s.t, s.fields, "some clients take an empty line after comments for an event")
		s.fields = 0
	}
	if value, ok := strings.CutPrefix(text, "id: "); ok {
		s.lastID = value
	}
	return text, true
}

// next returns the next event.
func (s *eventSource) next() serverEvent {
	s.t.Helper()
	var e serverEvent
	for {
		text, ok := s.line()
		require.True(s.t, ok, "the stream has ended: %v", s.lines.Err())
		name, value, _ := strings.Cut(text, ": ")
		switch name {
		case "event":
			e.name = value
		case "data":
			require.Empty(s.t, e.data, "one line")
			e.data = value
		case "":
			if e.data != "" {
				e.lastID = s.lastID
				return e
			}
		}
	}
}

// streamMessage is the data of a message.
type streamMessage struct {
	wire.StreamSource
	client.Message

	ReceiptHandle string `json:"receiptHandle"` // in streams from many channels
}

// message returns the next event, which is a message.
func (s *eventSource) message() (m streamMessage) {
	s.t.Helper()
	e := s.next()
	require.Equal(s.t, "message", e.name, e.data)
	require.NoError(s.t, json.Unmarshal([]byte(e.data), &m))
	return m
}

// ends expects the last event.
func (s *eventSource) ends(reason string) {
	s.t.Helper()
	require.Equal(s.t, serverEvent{s.lastID, "end", `{"reason":"` + reason + `"}`}, s.next())
	require.False(s.t, s.lines.Scan())
	require.NoError(s.t, s.lines.Err())
}

const streamOfS = servertest.At + "/stream"

func TestStream(t *testing.T) {
	t.Parallel()
	for _, http2 := range []bool{false, true} {
		h := servertest.Start(t)
		h.Client = servertest.Client(t, http2)
		h.Subscribe("c", "s")
		s := openEvents(t, h, streamOfS)
		s.ping()
		require.Regexp(t, `^1\d{3}$`, s.retry)
		for name, value := range map[string]string{"Content-Type": wire.MediaEvents, "X-Accel-Buffering": "no",
			"Cache-Control": "no-store, no-transform"} {
			require.Equal(t, value, s.header.Get(name))
		}
		h.Publish("c", "a", "{\n\"x\":\r\n [1]}")
		e := s.next()
		fetched := h.Fetch("c", "s")
		require.Equal(t, fetched.ReceiptHandle, e.lastID)
		var sent client.Message
		require.NoError(t, json.Unmarshal([]byte(e.data), &sent))
		require.JSONEq(t, string(fetched.Messages[0].Content), string(sent.Content))
		sent.Content, fetched.Messages[0].Content = nil, nil
		require.Equal(t, fetched.Messages[0], sent)

		// a batch isn't in its notification, and is larger than one write
		text := `"` + strings.Repeat("x", servertest.MaxMessageBytes-2) + `"`
		batch := strings.Repeat(`,{"content":`+text+`}`, 150)
		h.Do("POST", "/v1/channels/c/messages", "["+batch[1:]+"]").With(http.StatusCreated)
		for n := range 150 {
			m := s.message()
			require.Equal(t, text, string(m.Content))
			require.EqualValues(t, n+2, m.Clock)
		}
		h.Do("POST", servertest.At+"/ack", `{"receiptHandle":"`+s.lastID+`"}`).With(http.StatusNoContent)
		require.Empty(t, h.Fetch("c", "s").Messages)
		h.Do("DELETE", servertest.At, "").With(http.StatusNoContent)
		s.ends("removed")
	}
}

// A reconnect begins at the mark, or acknowledges what the page has seen.
func TestStreamResumes(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	h.Subscribe("c", "s")
	for _, id := range []string{"a", "b", "c"} {
		h.Publish("c", id, "1")
	}
	s := openEvents(t, h, streamOfS+"?window=2&ack=resume")
	require.Equal(t, "a", s.message().ID)
	seen := servertest.Header{Name: "Last-Event-ID", Value: s.lastID}
	require.Equal(t, "b", s.message().ID)
	s.ends("window")
	require.Equal(t, "a", openEvents(t, h, streamOfS, seen).message().ID)
	require.Equal(t, "b", openEvents(t, h, streamOfS+"?ack=resume", seen).message().ID)
	require.Equal(t, "c", openEvents(t, h, streamOfS+"?ack=resume&lastEventId="+s.lastID).message().ID)

	paused := openEvents(t, h, streamOfS+"?window=1")
	require.Equal(t, "c", paused.message().ID)
	h.Publish("c", "d", "1")
	require.Equal(t, "c", h.Fetch("c", "s").Messages[0].ID)
	h.Do("POST", servertest.At+"/ack", `{"receiptHandle":"`+paused.lastID+`"}`).With(http.StatusNoContent)
	require.Equal(t, "d", paused.message().ID)
}

// TestStreamWithoutKey: the event ID that a browser sends again isn't an error if this service can't have made it: the
// browser would give up.
func TestStreamWithoutKey(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	h.Subscribe("c", "s")
	h.Subscribe("d", "s")
	h.Publish("c", "a", "1")
	of := receipt.Receipt{Channel: "c", Subscriber: "s", Clock: 1, MessageID: "a"}
	for _, id := range []string{servertest.Keyring(t).Sign(of), "42", "AQ" + strings.Repeat("A", 100)} {
		lastID := servertest.Header{Name: "Last-Event-ID", Value: id}
		for _, path := range []string{streamOfS, streamOfS + "?ack=resume", "/v1/stream?ack=resume&sub=c/s&sub=d/s",
			tailOfC + "?from=earliest"} {
			s := openEvents(t, h, path, lastID)
			gap := s.next()
			require.Equal(t, "gap", gap.name, path)
			require.Contains(t, gap.data, `"reason":"lost","count":0`)
			for gap.name == "gap" { // another one of d
				gap = s.next()
			}
			require.Contains(t, gap.data, `"id":"a"`)
			require.NotEqual(t, id, s.lastID)
		}
		socket := h.Dial()
		socket.Request(`{"type":"subscribe","ref":1,"channel":"c","subscriber":"s","resume":"`+id+`"}`, "ok")
		require.Equal(t, "lost", socket.Expect("gap").Reason)
		require.Equal(t, "a", socket.Expect("message").ID)
	}
}

func TestStreamOfMany(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	for _, name := range []string{"c", "d", "e"} {
		h.Subscribe(name, "s")
	}
	const path = "/v1/stream?ack=resume&sub=c/s&sub=d%2Fs&sub=e/s"
	s := openEvents(t, h, path)
	h.Publish("c", "a", "1")
	first := s.message()
	require.Equal(t, wire.StreamSource{Channel: "c", Subscriber: "s"}, first.StreamSource)
	h.Publish("d", "b", "2")
	require.Equal(t, "d", s.message().Channel)
	h.Do("POST", "/v1/channels/c/subscribers/s/ack", `{"receiptHandle":"`+first.ReceiptHandle+`"}`).With(
		http.StatusNoContent)
	h.Do("DELETE", "/v1/channels/e/subscribers/s", "").With(http.StatusNoContent)
	e := s.next()
	require.Equal(t, "problem", e.name)
	require.Contains(t, e.data, `"channel":"e","subscriber":"s","type":"urn:tidemark:problem:subscriber-not-found"`)

	h.Publish("d", "c", "3")
	again := openEvents(t, h, path, servertest.Header{Name: "Last-Event-ID", Value: s.lastID})
	require.Equal(t, "problem", again.next().name)
	require.Equal(t, "c", again.message().ID, "b is acknowledged")
}

func TestStreamsThatAreRefused(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	h.Subscribe("c", "s")
	h.Publish("c", "a", "1")
	handle := h.Fetch("c", "s").ReceiptHandle
	h.Subscribe("d", "s")
	many := "/v1/stream?sub=" + strings.Repeat("c/s&sub=", 256) + "d/s"
	for path, slug := range map[string]fault.Slug{
		streamOfS + "?window=0":    fault.SlugInvalidQuery,
		streamOfS + "?window=1001": fault.SlugInvalidQuery,
		streamOfS + "?ack=all":     fault.SlugInvalidQuery,
		streamOfS + "?sub=c/s":     fault.SlugInvalidQuery,
		"/v1/channels/d/subscribers/s/stream?lastEventId=" + handle: fault.SlugReceiptChannel,
		"/v1/stream":                   fault.SlugInvalidSources,
		"/v1/stream?sub=c":             fault.SlugInvalidQuery,
		"/v1/stream?sub=c/s&sub=c/s":   fault.SlugInvalidSources,
		many:                           fault.SlugInvalidSources,
		"/v1/stream?sub=c/s&sub=%7B/s": fault.SlugInvalidChannel,
		"/v1/stream?sub=c/s&sub=d/.t":  fault.SlugInvalidSubscriber,
		"/v1/stream?sub=c/s&sub=d/s&lastEventId=" + handle:          fault.SlugReceiptChannel,
		streamOfS + "?window=x":                                     fault.SlugInvalidQuery,
		streamOfS + "?window=-1":                                    fault.SlugInvalidQuery,
		streamOfS + "?ack=manual&ack=resume":                        fault.SlugInvalidQuery,
		"/v1/channels/c/subscribers/t/stream?lastEventId=" + handle: fault.SlugReceiptSubscriber,
		tailOfC + "?from=now":                                       fault.SlugInvalidFrom,
		tailOfC + "?from=9007199254740992":                          fault.SlugInvalidFrom,
		tailOfC + "?from=":                                          fault.SlugInvalidFrom,
		tailOfC + "?window=5":                                       fault.SlugInvalidQuery,
		tailOfC + "?ack=resume":                                     fault.SlugInvalidQuery,
		tailOfC + "?lastEventId=" + handle:                          fault.SlugReceiptSubscriber,
		"/v1/channels/%7B/stream":                                   fault.SlugInvalidChannel,
		"/v1/stream?tail=c":                                         fault.SlugInvalidQuery,
		"/v1/stream?tail=c/now":                                     fault.SlugInvalidFrom,
		"/v1/stream?tail=c/latest&tail=c/1":                         fault.SlugInvalidSources,
		"/v1/stream?tail=" + strings.Join(slices.Repeat([]string{"c/1"}, channel.MaxTails+1), "&tail="): fault.SlugInvalidSources,
	} {
		h.Do("GET", path, "").Problem(http.StatusBadRequest, slug)
	}
	h.Do("GET", tailOfC+"?from=2", "").Problem(http.StatusConflict, fault.SlugInvalidFrom)
	for path, field := range map[string]string{
		"/v1/stream?tail=c/latest&sub=c/s&sub=%7B/s":       "sub/1/channel",
		"/v1/stream?sub=c/s&tail=c/latest&tail=%7B/1":      "tail/1/channel",
		"/v1/stream?sub=c/s&tail=d/latest&tail=d/1":        "tail/1",
		"/v1/stream?sub=c/s&tail=d/latest&sub=d/s&sub=c/s": "sub/2",
		tailOfC + "?from=now":                              "from",
	} {
		require.Equal(t, field, servertest.Decode[client.Problem](h.Do("GET", path, "")).Field, path)
	}
	h.Do("GET", "/v1/channels/c/subscribers/nobody/stream", "").Problem(http.StatusNotFound, fault.SlugNoSubscriber)
	h.Do("GET", "/v1/stream?sub=c/nobody&sub=d/nobody", "").Problem(http.StatusNotFound, fault.SlugNoSubscriber)
}

const tailOfC = "/v1/channels/c/stream"

// A tail needs no subscriber, makes none, and resumes before its first message, too.
func TestTail(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	early := openEvents(t, h, tailOfC)
	early.ping()
	before := servertest.Header{Name: "Last-Event-ID", Value: early.lastID}
	require.NotEmpty(t, before.Value)
	for _, id := range []string{"a", "b", "c"} {
		h.Publish("c", id, "1")
	}
	require.Equal(t, "a", early.message().ID, "the channel didn't exist")
	after := servertest.Header{Name: "Last-Event-ID", Value: early.lastID}
	require.Equal(t, "a", openEvents(t, h, tailOfC, before).message().ID)
	require.Equal(t, "b", openEvents(t, h, tailOfC, after).message().ID)
	require.Equal(t, "b", openEvents(t, h, tailOfC+"?from=1").message().ID)
	require.Equal(t, "a", openEvents(t, h, tailOfC+"?from=earliest").message().ID)
	require.Empty(t, servertest.Decode[client.Description](h.Do("GET", "/v1/channels/c", "")).Subscribers)

	h.Subscribe("d", "s")
	many := openEvents(t, h, "/v1/stream?tail=c/2&sub=d/s&tail=e/latest")
	e := many.next()
	require.Contains(t, e.data, `{"channel":"c","id":"c",`, "no subscriber, nothing to acknowledge")
	h.Publish("d", "x", "1")
	require.Equal(t, "s", many.message().Subscriber)
	resume := servertest.Header{Name: "Last-Event-ID", Value: many.lastID}
	h.Publish("e", "y", "1")
	require.Equal(t, "y", many.message().ID)
	again := openEvents(t, h, "/v1/stream?tail=c/2&sub=d/s&tail=e/latest", resume)
	require.ElementsMatch(t, []string{"x", "y"}, []string{again.message().ID, again.message().ID})
}

// A tail is for those who may subscribe.
func TestTailNeedsSubscribe(t *testing.T) {
	t.Parallel()
	var p servertest.People
	h := servertest.Start(t, servertest.Closed(t, &p, browsers))
	p.Add(t, "good", `[{"actions":["subscribe"],"channels":["c","d"]}]`)
	p.Add(t, "describer", `[{"actions":["describe","publish"]}]`)
	openEvents(t, h, tailOfC, servertest.Bearer("good")).ping()
	openEvents(t, h, "/v1/stream?tail=c/latest&tail=d/1", servertest.Bearer("good")).ping()
	h.Do("GET", tailOfC, "", servertest.Bearer("describer")).Problem(http.StatusForbidden, fault.SlugNotGranted)
	got := h.Do("GET", "/v1/stream?tail=c/latest&tail=e/latest", "", servertest.Bearer("good"))
	require.Equal(t, "tail/1", got.Problem(http.StatusForbidden, fault.SlugNotGranted).Field)
	for path, status := range map[string]int{"/v1/channels/open.a/stream?": http.StatusForbidden, tailOfC + "?": 400,
		"/v1/stream?tail=open.a/latest&": http.StatusForbidden, "/v1/stream?tail=open.a/latest&tail=c/1&": 400} {
		require.Equal(t, status, h.Do("GET", path+"access_token=describer", "").Status, path)
	}
}

// A stream tells why it ends.
func TestStreamEnds(t *testing.T) {
	t.Parallel()
	var p servertest.People
	h := servertest.Start(t, servertest.Closed(t, &p), func(s *servertest.Setup) { s.Limits.StreamAge = time.Hour })
	p.Add(t, "good", servertest.Everything)
	p.Add(t, "bad", servertest.Everything)
	h.As("good")
	h.Subscribe("c", "s")
	revoked := openEvents(t, h, streamOfS, servertest.Bearer("bad"))
	revoked.ping()
	p.Revoke("bad")
	revoked.ends("credential")

	few := limited(t, &p, "waits=1")
	one := openEvents(t, h, streamOfS, few)
	one.ping()
	h.Do("GET", streamOfS, "", few).Problem(http.StatusTooManyRequests, fault.SlugTooManyWaits)
	drained := openEvents(t, h, streamOfS)
	drained.ping()
	h.Stop()
	one.ends("drain")
	drained.ends("drain")
	require.NoError(t, <-h.Stopped)

	h = servertest.Start(t, func(s *servertest.Setup) { s.Limits.StreamAge = time.Millisecond })
	h.Subscribe("c", "s")
	h.Publish("c", "a", "1")
	aged := openEvents(t, h, streamOfS)
	require.Equal(t, "a", aged.message().ID)
	aged.ends("age")
}

// A page of another origin uses a plain EventSource: it can send no header, and its credential is in the query.
func TestStreamOfAPage(t *testing.T) {
	t.Parallel()
	const mine = "https://app.example.com"
	var p servertest.People
	h := servertest.Start(t, servertest.Closed(t, &p, browsers, access.ChannelRule{Pattern: ".*"}),
		func(s *servertest.Setup) { s.CORS = server.CORS{AllowOrigins: []string{mine}} })
	p.Add(t, "good", servertest.Everything)
	p.Add(t, "narrow", `[{"actions":["subscribe"],"channels":["open.*"]}]`)
	for _, name := range []string{"open.a", "open.b", "other"} {
		h.Do("PUT", "/v1/channels/"+name+"/subscribers/s", "", servertest.Bearer("good")).With(http.StatusCreated)
	}
	origin := servertest.Header{Name: "Origin", Value: mine}
	for _, path := range []string{"/v1/channels/open.a/subscribers/s/stream?", "/v1/stream?sub=open.a/s&sub=open.b/s&"} {
		s := openEvents(t, h, path+"access_token=narrow", origin)
		s.ping()
		require.Equal(t, mine, s.header.Get("Access-Control-Allow-Origin"))
		require.Equal(t, "private, no-store, no-transform", s.header.Get("Cache-Control"))
	}
	for _, path := range []string{"/v1/channels/other/subscribers/s/stream?", "/v1/stream?sub=open.a/s&sub=other/s&",
		"/v1/stream?sub=open.a/s&s%75b=other/s&", "/v1/stream?"} {
		h.Do("GET", path+"access_token=good", "").Problem(http.StatusBadRequest, fault.SlugTokenInQuery)
	}
	got := h.Do("GET", "/v1/stream?sub=open.a/s&sub=other/s", "", servertest.Bearer("narrow"))
	require.Equal(t, "sub/1", got.Problem(http.StatusForbidden, fault.SlugNotGranted).Field)
	h.Do("GET", "/v1/stream?sub=open.a/s&sub=open.b/s", "", servertest.Header{Name: "Origin", Value: servertest.Evil},
		servertest.Header{Name: "Sec-Fetch-Site", Value: "cross-site"}).Problem(http.StatusUnauthorized,
		fault.SlugNoCredential)
}
