package server

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/wire"
)

// What net/http writes, at once, for a request that it refuses before any handler is called.
var (
	statusLine   = []byte("HTTP/1.1 ")
	fixedHeaders = []byte("\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n")
	expectation  = []byte("HTTP/1.1 417 Expectation Failed\r\nConnection: close\r\n")
)

// unreadDetails says what is wrong where net/http doesn't.
var unreadDetails = map[int]string{
	http.StatusBadRequest:                  "the request line or a header is malformed",
	http.StatusExpectationFailed:           "the only expectation that is known is 100-continue",
	http.StatusRequestHeaderFieldsTooLarge: "the request line and the headers are larger than " + strconv.Itoa(maxHeaderBytes>>10) + " KiB",
	http.StatusNotImplemented:              "the transfer encoding is not supported",
}

// refuseUnread returns the problem to answer with instead of what net/http answers to a request that it refuses, or nil
// where an answer is none of these.
func (s *Server) refuseUnread(answer []byte) []byte {
	end := bytes.IndexByte(answer, '\r')
	if end < 0 || !bytes.HasPrefix(answer, statusLine) || !bytes.HasPrefix(answer[end:], fixedHeaders) && !bytes.HasPrefix(answer, expectation) {
		return nil
	}
	code, reason, _ := strings.Cut(string(answer[len(statusLine):end]), " ")
	status, err := strconv.Atoi(code)
	if err != nil {
		return nil
	}
	_, detail, told := strings.Cut(reason, ": ")
	if !told {
		detail = unreadDetails[status]
	}
	now := time.Now()
	problem := wire.NewProblem(fault.SlugInvalidRequest, status, detail)
	problem.RequestID = requestID(nil, now)
	s.stray.metrics.observe(status, 0)
	s.log.Debug("request refused unread", "requestId", problem.RequestID, "status", status, "detail", detail)
	return unreadAnswer(problem, now)
}

func unreadAnswer(problem *wire.Problem, now time.Time) []byte {
	body, err := json.Marshal(problem)
	if err != nil {
		return nil // can't be: a problem has only strings and numbers
	}
	body = append(body, '\n')
	header := http.Header{
		headerContentType: contentProblem, headerRequestID: {problem.RequestID}, "Date": {now.UTC().Format(http.TimeFormat)},
	}
	setSafetyHeaders(header)
	var out bytes.Buffer
	_ = (&http.Response{ // a buffer doesn't fail
		StatusCode: problem.Status, ProtoMajor: 1, ProtoMinor: 1, Header: header, Close: true,
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}).Write(&out)
	return out.Bytes()
}
