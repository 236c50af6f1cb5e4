package server_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/wire"
	"github.com/tidemark-dev/tidemark/test/servertest"
)

var update = flag.Bool("update", false, "write the golden files")

var longChannel = strings.Repeat("n", 513)

// badCalls are requests that are refused. Their problems are in testdata/problems, by name.
var badCalls = map[string]string{
	"path-unknown":          "GET /nothing/here",
	"path-trailing-slash":   "GET /v1/channels/c/",
	"path-slash-in-id":      "PUT /v1/channels/c/messages/a/b 1",
	"path-no-channel":       "GET /v1/channels/",
	"path-other-case":       "GET /V1/info",
	"method":                "PATCH /v1/channels/c {}",
	"method-of-fetch":       "HEAD-IS-NOT-ONE " + servertest.At + "/messages",
	"channel-empty":         `POST /v1/channels//messages {"content":1}`,
	"channel-slash":         `POST /v1/channels/a%2F/messages {"content":1}`,
	"channel-slashes":       `POST /v1/channels/a%2F%2Fb/messages {"content":1}`,
	"channel-climbs":        `POST /v1/channels/a%2F..%2Fb/messages {"content":1}`,
	"channel-slash-only":    `POST /v1/channels/%2F/messages {"content":1}`,
	"channel-nul":           `POST /v1/channels/c%00/messages {"content":1}`,
	"channel-control":       `POST /v1/channels/c%0d%0aX/messages {"content":1}`,
	"channel-dots":          "GET /v1/channels/..",
	"channel-dots-inside":   `POST /v1/channels/../messages {"content":1}`,
	"channel-dots-escaped":  "GET /v1/channels/%2e%2e%2finfo",
	"channel-escaped-twice": "GET /v1/channels/a%2562",
	"channel-not-utf8":      "GET /v1/channels/c%ff",
	"channel-utf8":          "GET /v1/channels/%C3%A9",
	"channel-long":          "GET /v1/channels/" + longChannel,
	"channel-policy":        "GET /v1/channels/life-long",
	"subscriber-slash":      "GET /v1/channels/c/subscribers/s%2Fmessages",
	"subscriber-empty":      "GET /v1/channels/c/subscribers//messages",
	"subscriber-missing":    "GET /v1/channels/c/subscribers/nobody/messages?wait=20s",
	"channel-missing":       "GET /v1/channels/nothing",
	"page-cursor":           "GET /v1/channels/c?cursor=-1",
	"page-limit":            "GET /v1/channels/c?limit=0",
	"page-twice":            "GET /v1/channels/c?limit=1&limit=2",
	"page-unknown":          "GET /v1/channels/c?page=2",
	"id-in-path":            "PUT /v1/channels/c/messages/%7B 1",
	"id-slash":              "PUT /v1/channels/c/messages/a%2Fb 1",
	"id-in-batch":           `POST /v1/channels/c/messages [{"content":1},{"id":"{","content":1}]`,
	"body-empty":            "POST /v1/channels/c/messages",
	"body-truncated":        `POST /v1/channels/c/messages {"content":[1,2`,
	"body-deep": `POST /v1/channels/c/messages {"content":` + strings.Repeat("[", 20_000) +
		strings.Repeat("]", 20_000) + `}`,
	"body-no-content": `POST /v1/channels/c/messages [{"content":1},{"id":"a"}]`,
	"batch-empty":     "POST /v1/channels/c/messages []",
	"content-too-large": `POST /v1/channels/c/messages [{"content":1},{"content":"` + strings.Repeat("x",
		servertest.MaxMessageBytes) + `"}]`,
	"content-too-large-put": `PUT /v1/channels/c/messages/a "` + strings.Repeat("x", servertest.MaxMessageBytes) + `"`,
	"content-empty":         "PUT /v1/channels/c/messages/a",
	"content-not-json":      "PUT /v1/channels/c/messages/a hello",
	"batch-too-large": `POST /v1/channels/c/messages [` + strings.Repeat(`{"content":1},`, 1000) +
		`{"content":1}]`,
	"max-zero":             "GET " + servertest.At + "/messages?max=0",
	"max-too-large":        "GET " + servertest.At + "/messages?max=1001",
	"wait-too-long":        "GET " + servertest.At + "/messages?wait=1h",
	"query-unknown":        "GET " + servertest.At + "/messages?Max=1",
	"query-twice":          "GET " + servertest.At + "/messages?max=1&max=2",
	"query-escape":         "GET " + servertest.At + "/messages?max=%zz",
	"query-where-none-is":  `PUT /v1/channels/c/subscribers/s?wait=1`,
	"subscribe-from":       `PUT ` + servertest.At + ` {"from":"now"}`,
	"subscribe-from-ahead": `PUT /v1/channels/c/subscribers/new {"from":5}`,
	"ack-no-handle":        "POST " + servertest.At + "/ack {}",
	"ack-malformed":        `POST ` + servertest.At + `/ack {"receiptHandle":"nonsense"}`,
	"next-max":             `POST ` + servertest.At + `/next {"max":0}`,
	"next-wait":            `POST ` + servertest.At + `/next {"wait":"1h"}`,
}

// badMatchCalls are requests about tickets and queues that are refused. Their problems are in testdata/tickets, by
// name.
var badMatchCalls = map[string]string{
	"path-below-ticket":        "GET /v1/tickets/t/x",
	"path-below-queue":         "GET /v1/queues/q/x",
	"path-no-ticket":           "GET /v1/tickets/",
	"method-of-ticket":         "PUT /v1/tickets/t {}",
	"query":                    "GET /v1/tickets/t?wait=1s",
	"ticket-missing":           "GET /v1/tickets/t",
	"ticket-bad-id":            "GET /v1/tickets/%7B%7D",
	"create-empty":             "POST /v1/tickets",
	"create-unknown-member":    `POST /v1/tickets {"queue":"duel","assignment":{}}`,
	"create-queue-missing":     `POST /v1/tickets {"queue":"nowhere"}`,
	"create-id-bad":            `POST /v1/tickets {"id":"a/b"}`,
	"create-id-of-other-queue": `POST /v1/tickets {"id":"taken"}`,
	"create-ttl-long":          `POST /v1/tickets {"ttl":"11m"}`,
	"create-criterion-turned":  `POST /v1/tickets {"criteria":[{"name":"skill","minValue":2,"maxValue":1}]}`,
	"create-too-large": `POST /v1/tickets {"queue":"duel","extensions":{"a":"` + strings.Repeat("x", 2000) +
		`"}}`,
	"queue-missing":           "GET /v1/queues/nowhere",
	"queue-bad-name":          "GET /v1/queues/%7B%7D",
	"queue-put-bad-name":      "PUT /v1/queues/%7B%7D {}",
	"queue-put-configured":    "PUT /v1/queues/duel {}",
	"queue-put-empty":         "PUT /v1/queues/q",
	"queue-put-null":          "PUT /v1/queues/q null",
	"queue-put-unknown-key":   `PUT /v1/queues/q {"match":{"team":1}}`,
	"queue-put-widen":         `PUT /v1/queues/q {"match":{"widen":[{"after":"5s","by":{"a.b":-1}}]}}`,
	"queue-delete-configured": "DELETE /v1/queues/duel",
	"queue-delete-in-use":     "DELETE /v1/queues/busy",
	"queue-method":            "POST /v1/queues/q {}",
	"queues-query":            "GET /v1/queues?x",
	"queue-describe-slash":    "GET /v1/queues/a%2Fb",
}

// TestBadInput compares the problems of bad requests with testdata, and shows that they change nothing.
func TestBadInput(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	h.Subscribe("c", "s")
	h.Publish("c", "a", "1")
	before := h.Keys()
	refuses(h, "problems", badCalls)
	require.Equal(t, before, h.Keys())
}

func TestBadInputOfMatchmaking(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t, servertest.WithQueues()).OnAdmin()
	require.Equal(t, http.StatusCreated, h.Do("PUT", "/v1/queues/busy", "{}").Status)
	h.Create(`{"queue":"busy","id":"taken"}`)
	refuses(h, "tickets", badMatchCalls)
	require.Equal(t, string(matchmaking.Searching), h.Ticket("taken").Status)
}

// refuses compares the answers to calls with the files of a folder, which has one for each call.
func refuses(h *servertest.Harness, folder string, calls map[string]string) {
	h.TB.Helper()
	for name, call := range calls {
		method, path, body := servertest.Cut(call)
		got := h.Do(method, path, body, servertest.Header{Name: "X-Request-Id", Value: "the-id"})
		require.Equal(h.TB, wire.MediaProblem, got.Header.Get("Content-Type"), name)
		require.True(h.TB, got.Status >= 400 && got.Status < 500, "%s: %d", name, got.Status)
		require.Equal(h.TB, got.Status == http.StatusMethodNotAllowed, got.Header.Get("Allow") != "", name)
		golden(h.TB, filepath.Join("testdata", folder, name+".json"), got.Body)
	}
	files, err := filepath.Glob(filepath.Join("testdata", folder, "*.json"))
	require.NoError(h.TB, err)
	require.Len(h.TB, files, len(calls))
}

// golden compares data, indented, with a file.
func golden(t testing.TB, file string, data []byte) {
	t.Helper()
	t.Helper()
	var pretty bytes.Buffer
	require.NoError(t, json.Indent(&pretty, data, "", "  "))
	pretty.WriteByte('\n')
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o750))
		require.NoError(t, os.WriteFile(file, pretty.Bytes(), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), pretty.String(), file)
}

// TestNamesAtTheirEdges: names that are just valid are accepted, escaped or not.
func TestNamesAtTheirEdges(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	for _, name := range []string{"a", "0", "A.b:c_d-e", strings.Repeat("n", 128), "info", "messages", "a..", "%41",
		"%61%2E%62", "a%3ab"} {
		got := h.Do("PUT", "/v1/channels/"+name+"/messages/"+name, "1")
		require.Equal(t, http.StatusCreated, got.Status, "%s", got.Body)
		h.Do("PUT", "/v1/channels/"+name+"/subscribers/"+name, "")
		require.Equal(t, http.StatusOK, h.Do("GET", "/v1/channels/"+name+"/subscribers/"+name+"/messages", "").Status)
		require.Equal(t, http.StatusOK, h.Do("GET", "/v1/channels/"+name, "").Status)
	}
	require.Equal(t, "A", servertest.Decode[client.Description](h.Do("GET", "/v1/channels/%41", "")).Channel)
	require.EqualValues(t, 1, servertest.Decode[client.Description](h.Do("GET", "/v1/channels/A", "")).Clock)
}

// TestPathsAreRoutedAsTheyWereSent: an escape never selects another route.
func TestPathsAreRoutedAsTheyWereSent(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	h.Subscribe("c", "s")
	h.Do("GET", "/v1/channels/c%2Fsubscribers%2Fs%2Fmessages", "").Problem(404, fault.SlugNoChannel)
	h.Do("DELETE", "/v1/channels/c/subscribers/s%2F..%2Fs", "").Problem(400, fault.SlugInvalidSubscriber)
	h.Do("GET", "/v1%2Finfo", "").Problem(404, fault.SlugNoPath)
	h.Do("GET", "/%76%31/info", "").Problem(404, fault.SlugNoPath)
	h.Do("GET", "/v1/../metrics", "").Problem(404, fault.SlugNoPath)
	h.Do("GET", "//v1/info", "").Problem(404, fault.SlugNoPath)
	h.Do("GET", "/v1/channels/c/../../info", "").Problem(404, fault.SlugNoPath)
	require.Equal(t, http.StatusOK, h.Do("GET", servertest.At+"/messages", "").Status, "the subscriber is still there")
}

// TestInvalidHTTP sends requests that net/http refuses before any handler is called.
func TestInvalidHTTP(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	const get, post, host = "GET /v1/info HTTP/1.1\r\n", "POST /v1/channels/c/messages HTTP/1.1\r\n",
		"Host: localhost\r\n"
	for name, bad := range map[string]struct {
		request string
		status  int
		detail  string
	}{
		"percent":           {"GET /v1/channels/% HTTP/1.1\r\n" + host + "\r\n", 400, "malformed"},
		"escape":            {"GET /v1/channels/%zz HTTP/1.1\r\n" + host + "\r\n", 400, "malformed"},
		"space":             {"GET /v1/channels/a b HTTP/1.1\r\n" + host + "\r\n", 400, "malformed"},
		"no slash":          {"GET no-slash HTTP/1.1\r\n" + host + "\r\n", 400, "malformed"},
		"NUL":               {"GET /v1/channels/\x00 HTTP/1.1\r\n" + host + "\r\n", 400, "malformed"},
		"no host":           {get + "\r\n", 400, "missing required Host header"},
		"two hosts":         {get + host + host + "\r\n", 400, "malformed"},
		"malformed host":    {get + "Host: a b\r\n\r\n", 400, "malformed Host header"},
		"header name":       {get + host + "a b: c\r\n\r\n", 400, "invalid header name"},
		"header value":      {get + host + "a: \x01\r\n\r\n", 400, "malformed"},
		"length":            {post + host + "Content-Length: x\r\n\r\n", 400, "malformed"},
		"version":           {"GET /v1/info HTTP/3.0\r\n" + host + "\r\n", 505, "unsupported protocol version"},
		"large headers":     {get + host + "a: " + strings.Repeat("x", 40<<10) + "\r\n\r\n", 431, "larger than 32 KiB"},
		"transfer encoding": {post + host + "Transfer-Encoding: gzip\r\n\r\n", 501, "transfer encoding"},
		"expectation":       {post + host + "Expect: miracles\r\nContent-Length: 1\r\n\r\n1", 417, "100-continue"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := h.Raw(bad.request)
			got.TB = t
			require.True(t, bytes.HasSuffix(got.Body, []byte("}\n")), "%s", got.Body)
			require.Contains(t, got.Problem(bad.status, fault.SlugInvalidRequest).Detail, bad.detail)
			require.NotEmpty(t, got.Header.Get("Date"))
		})
	}
	h.Raw("OPTIONS * HTTP/1.1\r\n"+host+"\r\n").Problem(404, fault.SlugNoPath)
}

// TestCompressedBodies: what was compressed on the way is refused with the reason, and so is a list of encodings.
func TestCompressedBodies(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	for _, encoding := range []string{"gzip", "br", "identity, gzip"} {
		got := h.Do("POST", "/v1/channels/c/messages", "\x1f\x8b\x08", servertest.Header{Name: "Content-Encoding", Value: encoding})
		require.Contains(t, got.Problem(400, fault.SlugInvalidBody).Detail, "Content-Encoding \""+encoding)
	}
	got := h.Do("POST", "/v1/channels/c/messages", `{"content":1}`,
		servertest.Header{Name: "Content-Encoding", Value: "Identity"})
	require.Equal(t, 201, got.Status)
}

// TestIdleConnections: a connection is closed when it had no request for a time, and not during one.
func TestIdleConnections(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t, func(s *servertest.Setup) { s.Limits.IdleTimeout = 50 * time.Millisecond })
	h.Subscribe("c", "s")
	conn := h.Connect("")
	_, err := io.WriteString(conn, "GET "+servertest.At+"/messages?wait=200ms HTTP/1.1\r\nHost: localhost\r\n\r\n")
	require.NoError(t, err)
	text, err := io.ReadAll(conn) // until it is closed
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(text), "HTTP/1.1 200 OK"))
	require.NotContains(t, string(text), "Connection: close")
}

// TestLengthAndChunks: a connection is closed after a request with a length and chunks, however it arrives, and goes on
// after one with either.
func TestLengthAndChunks(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	const post = "POST /v1/channels/c/messages HTTP/1.1\r\nHost: localhost\r\n"
	const text = `{"content":1}`
	length, encoding := "Content-Length: "+strconv.Itoa(len(text))+"\r\n", "Transfer-Encoding: chunked\r\n"
	long, chunked := post+length+"\r\n"+text, post+encoding+"\r\nd\r\n"+text+"\r\n0\r\n\r\n"
	both := post + strings.ToUpper(length) + encoding + "\r\nd\r\n" + text + "\r\n0\r\n\r\n"
	// exchange sends some bytes at a time, and returns what arrives until one answer says that it is the last.
	exchange := func(step int, requests ...string) (closes []bool) {
		conn := h.Connect("")
		answers := bufio.NewReader(conn)
		for _, request := range requests {
			for len(request) > 0 {
				n := min(step, len(request))
				_, err := io.WriteString(conn, request[:n])
				require.NoError(t, err)
				request = request[n:]
			}
			answer, err := http.ReadResponse(answers, nil)
			require.NoError(t, err)
			_, err = io.Copy(io.Discard, answer.Body)
			require.NoError(t, err)
			require.NoError(t, answer.Body.Close())
			require.Equal(t, http.StatusCreated, answer.StatusCode)
			closes = append(closes, answer.Close)
		}
		if closes[len(closes)-1] {
			_, err := answers.ReadByte()
			require.ErrorIs(t, err, io.EOF)
		}
		return closes
	}
	for _, step := range []int{1 << 20, 7, 1} {
		require.Equal(t, []bool{false, false, false, false}, exchange(step, long, chunked, chunked, long))
		require.Equal(t, []bool{true}, exchange(step, both))
		require.Equal(t, []bool{false, false, true}, exchange(step, long, chunked, both))
	}
}

// TestBadChunks sends bodies whose chunks are malformed.
func TestBadChunks(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	const head = " HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
	for _, chunks := range []string{"x\r\n1\r\n0\r\n\r\n", "-1\r\n", "ffffffffffffffffff\r\n", "1\r\n12", "5\r\n1",
		"1;" + strings.Repeat("x", 8<<10)} {
		h.Raw("POST /v1/channels/c/messages"+head+chunks).Problem(400, fault.SlugInvalidBody)
		h.Raw("PUT /channel/c/message/m"+head+chunks).OldError(400, "")
	}
	require.Equal(t, 404, h.Do("GET", "/v1/channels/c", "").Status, "nothing was published")
}
