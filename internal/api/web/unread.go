package web

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

// MaxHeaderBytes is the largest request line with its headers. It is for http.Server.
const MaxHeaderBytes = 32 << 10

// UnreadHeaders are the headers of an answer to RefuseUnread.
const UnreadHeaders = "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"

// What net/http writes, in one call, for a request that it refuses before any handler is called.
var (
	statusLine   = []byte("HTTP/1.1 ")
	fixedHeaders = []byte(UnreadHeaders)
	expectation  = []byte("HTTP/1.1 417 Expectation Failed\r\nConnection: close\r\n")
)

// unreadDetails are the details of refusals for which net/http gives none.
var unreadDetails = map[int]string{
	http.StatusBadRequest:        "the request line or a header is malformed",
	http.StatusExpectationFailed: "the only supported expectation is 100-continue",
	http.StatusRequestHeaderFieldsTooLarge: "the request line and the headers are larger than " +
		strconv.Itoa(MaxHeaderBytes>>10) + " KiB",
	http.StatusNotImplemented: "the transfer encoding is not supported",
}

// RefuseUnread returns the problem to write in place of net/http's answer to a request that it refuses itself, or nil
// if answer is not such an answer.
func (r *Router) RefuseUnread(answer []byte) []byte {
	end := bytes.IndexByte(answer, '\r')
	if end < 0 || !bytes.HasPrefix(answer, statusLine) || !bytes.HasPrefix(answer[end:], fixedHeaders) &&
		!bytes.HasPrefix(answer, expectation) {
		return nil
	}
	code, reason, _ := strings.Cut(string(answer[len(statusLine):end]), " ")
	status, err := strconv.Atoi(code)
	if err != nil {
		return nil
	}
	_, detail, ok := strings.Cut(reason, ": ")
	if !ok {
		detail = unreadDetails[status]
	}
	now := time.Now()
	problem := wire.NewProblem(fault.SlugInvalidRequest, status, detail)
	problem.RequestID = RequestID(nil, now)
	r.stray.metrics.counter(status).Inc() // its duration isn't known
	r.log.Debug("request refused unread", "requestId", problem.RequestID, "status", status, "detail", detail)
	return unreadAnswer(problem, now)
}

func unreadAnswer(problem *client.Problem, now time.Time) []byte {
	body, err := json.Marshal(problem)
	if err != nil {
		return nil // impossible: a problem has only strings and numbers
	}
	body = append(body, '\n')
	header := http.Header{
		headerContentType: contentProblem, headerRequestID: {problem.RequestID},
		"Date": {now.UTC().Format(http.TimeFormat)},
	}
	setSafetyHeaders(header)
	var out bytes.Buffer
	_ = (&http.Response{ // a buffer doesn't fail
		StatusCode: problem.Status, ProtoMajor: 1, ProtoMinor: 1, Header: header, Close: true,
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}).Write(&out)
	return out.Bytes()
}
