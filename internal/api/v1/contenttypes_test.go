package v1_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/test/servertest"
)

// typed is the header of a body of a type.
func typed(contentType string) servertest.Header {
	return servertest.Header{Name: "Content-Type", Value: contentType}
}

// TestContentTypes publishes messages that aren't JSON in each way, and reads them in each way.
func TestContentTypes(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	h.Subscribe("c", "s")
	const at = "/v1/channels/c/messages"
	socket := h.Dial()
	socket.Request(`{"type":"subscribe","ref":1,"channel":"c","from":"latest"}`, "ok")

	const bytes = "\x00\xff\r\n\"<script>,\"at\":5}"
	h.Do("PUT", at+"/a", bytes, typed("Application/Octet-Stream")).Like(201,
		`{"channel":"c","id":"a","clock":1,"duplicate":false}`)
	h.Do("PUT", at+"/a", bytes, typed("application/octet-stream")).Like(200,
		`{"channel":"c","id":"a","clock":1,"duplicate":true}`)
	h.Do("PUT", at+"/a", bytes, typed("text/plain")).Like(200,
		`{"channel":"c","id":"a","clock":1,"duplicate":true,"differs":true}`)
	h.Do("PUT", at+"/empty", "", typed("text/plain; charset=UTF-8")).With(201)
	h.Do("POST", at, `{"content":1}`, typed("text/html")).With(201)
	h.Do("POST", at, `[{"id":"d","content":"aGk=","contentType":"text/plain"},{"id":"e","content":"aGk="}]`).With(201)
	h.Dial().Request(`{"type":"publish","ref":2,"channel":"c","id":"f","contentType":"a/b; c=d","content":"/+8="}`,
		"published")
	for i, json := range []string{"", "application/json", "application/json; charset=utf-8", "APPLICATION/JSON",
		"application/x-www-form-urlencoded", "application/x-www-form-urlencoded;charset=UTF-8"} {
		headers := []servertest.Header{typed(json)}[:min(len(json), 1)]
		h.Do("PUT", fmt.Sprintf("%s/json%d", at, i), "5", headers...).With(201)
		h.Do("PUT", at+"/none", "hello", headers...).Problem(400, fault.SlugInvalidContent)
		h.Do("POST", at, "hello", headers...).Problem(400, fault.SlugInvalidBody)
	}

	d := h.Fetch("c", "s")
	got := make([]string, len(d.Messages))
	for i, m := range d.Messages {
		content, err := m.Bytes()
		require.NoError(t, err)
		got[i] = fmt.Sprintf("%s %s %q", m.ContentType, m.Content, content)
		f := socket.Expect("message")
		require.Equal(t, []string{m.ID, m.ContentType, string(m.Content)},
			[]string{f.ID, f.ContentType, string(f.Content)})
	}
	const five = ` 5 "5"`
	require.Equal(t, []string{
		`application/octet-stream "AP8NCiI8c2NyaXB0PiwiYXQiOjV9" ` + fmt.Sprintf("%q", bytes),
		`text/plain; charset=utf-8 "" ""`,
		`text/html "eyJjb250ZW50IjoxfQ==" "{\"content\":1}"`,
		`text/plain "aGk=" "hi"`,
		` "aGk=" "\"aGk=\""`,
		`a/b; c=d "/+8=" "\xff\xef"`,
		five, five, five, five, five, five,
	}, got)
}

// TestRefusedContentTypes: nothing is published.
func TestRefusedContentTypes(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	for _, call := range []string{"POST /v1/channels/c/messages", "PUT /v1/channels/c/messages/a"} {
		method, path, _ := strings.Cut(call, " ")
		for _, contentType := range []string{"text", "text/", "a/b; x", "a/b, c/d", `a/b; x="y z"`,
			"a/" + strings.Repeat("b", 127)} {
			require.Empty(t, h.Do(method, path, "x", typed(contentType)).Problem(400, fault.SlugContentType).Field)
		}
		h.Do(method, path, strings.Repeat("x", servertest.MaxMessageBytes+1), typed("text/plain")).Problem(413,
			fault.SlugMessageTooLarge)
	}
	h.Do("POST", "/v1/channels/c/messages", `[{"content":1},{"contentType":"a/b","content":"?"}]`).Problem(400,
		fault.SlugInvalidContent)
	h.Do("GET", "/v1/channels/c", "").Problem(404, fault.SlugNoChannel)
}
