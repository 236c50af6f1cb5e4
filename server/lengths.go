package server

import (
	"bytes"
	"context"
	"net/http"
	"sync/atomic"
)

// lengths counts the Content-Length headers that arrive on a connection. net/http ignores that header if the request is
// chunked, and removes it, so that handlers don't see that a request has both. RFC 9112 demands that the connection is
// closed after such a request: a proxy in front may find its end elsewhere, and take a part of the body for a request.
//
// A line of a body that looks like the header is counted, too, so the count can only be too large: then a connection is
// closed that could go on.
type lengths struct {
	matched int          // bytes at the end that match a line feed and lengthHeader
	arrived atomic.Int64 // headers that were read
	known   atomic.Int64 // of these, headers of requests with no more than that
}

const lengthHeader = "content-length"

// read counts the headers in what was read. It is called by one goroutine at a time.
func (l *lengths) read(p []byte) {
	for len(p) > 0 {
		if l.matched == 0 {
			end := bytes.IndexByte(p, '\n')
			if end < 0 {
				return
			}
			p, l.matched = p[end+1:], 1
			continue
		}
		c := p[0]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lengthHeader[l.matched-1] {
			l.matched = 0 // the byte may be a line feed
			continue
		}
		p = p[1:]
		if l.matched++; l.matched > len(lengthHeader) {
			l.matched = 0
			l.arrived.Add(1)
		}
	}
}

type lengthsKey struct{}

// closeAmbiguous closes the connection after a request that has both a length and chunks.
func closeAmbiguous(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 1 {
			if l, ok := r.Context().Value(lengthsKey{}).(*lengths); ok && l.isAmbiguous(r) {
				w.Header().Set("Connection", "close")
			}
		}
		h.ServeHTTP(w, r)
	})
}

// isAmbiguous reports whether a request may have both.
func (l *lengths) isAmbiguous(r *http.Request) bool {
	if r.Header["Content-Length"] != nil {
		l.known.Add(1)
	}
	return len(r.TransferEncoding) > 0 && l.arrived.Load() > l.known.Load()
}

// withLengths returns a context of a connection's requests.
func withLengths(ctx context.Context, l *lengths) context.Context {
	return context.WithValue(ctx, lengthsKey{}, l)
}
