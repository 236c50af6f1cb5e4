package grpc

import (
	"io"
	"maps"
	"net/http"
	"sync"
)

// exchange keeps reads of a translated request and writes of its answer apart. grpc-go reads the body in a goroutine of
// its own, and goes on without it when a call ends early; the body that it reads from vanguard writes the answer itself
// if a message can't be translated. Neither knows of the other.
type exchange struct {
	mu      sync.Mutex // held during a read, but for the wait for the client, and during a write
	reading bool       // a read holds the lock; only the goroutine that reads uses it
}

// serveTranslated passes a request from vanguard to grpc-go.
func (s *Services) serveTranslated(w http.ResponseWriter, r *http.Request) {
	e := &requestOf(r.Context()).exchange
	out := &exchangeWriter{exchange: e, to: w, header: make(http.Header)}
	defer out.end()
	translated := *r
	translated.Body = &exchangeBody{ReadCloser: r.Body, exchange: e}
	s.onRoutes.ServeHTTP(out, &translated)
}

// exchangeBody is a translated body.
type exchangeBody struct {
	io.ReadCloser
	exchange *exchange
}

// Read reads a part of the body.
func (b *exchangeBody) Read(p []byte) (int, error) {
	e := b.exchange
	e.mu.Lock()
	defer e.mu.Unlock()
	e.reading = true
	defer func() { e.reading = false }()
	return b.ReadCloser.Read(p)
}

// arrivingBody is the body of a request of which more can arrive.
type arrivingBody struct {
	io.ReadCloser
	exchange *exchange
}

// Read reads a part of the body. The answer can be written while it waits.
func (b *arrivingBody) Read(p []byte) (int, error) {
	if e := b.exchange; e.reading {
		e.mu.Unlock()
		defer e.mu.Lock()
	}
	return b.ReadCloser.Read(p)
}

// exchangeWriter writes the answer. Its headers are its own until they are written.
type exchangeWriter struct {
	exchange *exchange
	to       http.ResponseWriter
	header   http.Header
}

// Header returns the headers, or, after they are written, the trailers.
func (w *exchangeWriter) Header() http.Header { return w.header }

// WriteHeader writes the headers.
func (w *exchangeWriter) WriteHeader(status int) {
	w.exchange.mu.Lock()
	defer w.exchange.mu.Unlock()
	w.passHeader()
	w.to.WriteHeader(status)
}

// Write writes a part of the answer.
func (w *exchangeWriter) Write(p []byte) (int, error) {
	w.exchange.mu.Lock()
	defer w.exchange.mu.Unlock()
	w.passHeader()
	return w.to.Write(p)
}

// Flush sends what has been written.
func (w *exchangeWriter) Flush() {
	w.exchange.mu.Lock()
	defer w.exchange.mu.Unlock()
	w.passHeader()
	w.to.(http.Flusher).Flush() // vanguard's writer and the router's have it
}

// end passes the trailers on.
func (w *exchangeWriter) end() {
	w.exchange.mu.Lock()
	defer w.exchange.mu.Unlock()
	w.passHeader()
}

// passHeader passes on the headers that were set since the last call. The lock is held.
func (w *exchangeWriter) passHeader() {
	maps.Copy(w.to.Header(), w.header)
	clear(w.header)
}
