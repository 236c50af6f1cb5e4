package web

import (
	"errors"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/tidemark-dev/tidemark/internal/unsent"
)

// pieceBytes is how much of an answer is written before the client gets more time.
const pieceBytes = 64 << 10

// answerWriter writes the answer of a Call. It counts what the client has not read, and limits the time to read it. A
// large body's turn to be decoded ends when the answer begins: a client that doesn't read must not keep it.
type answerWriter struct {
	http.ResponseWriter
	call  *Call
	timed atomic.Bool // the handler has set deadlines, which remain. Calls of gRPC set them in another goroutine
}

// Write writes a part of the answer. Beyond the memory of answers it returns an error, and the answer is cut off when
// the handler has returned.
func (w *answerWriter) Write(p []byte) (int, error) {
	w.call.share.EndTurn()
	if len(p) <= unsent.Small {
		return w.ResponseWriter.Write(p)
	}
	part := &w.call.unsent
	if w.call.granted {
		granted := w.call.route.router.answers.Granted(w.call.client)
		part = &granted
	}
	taken := part.Taken()
	if err := part.Grow(int64(len(p))); err != nil {
		w.call.cut = err
		return 0, err
	}
	defer part.Shrink(taken)
	if w.timed.Load() {
		return w.ResponseWriter.Write(p)
	}
	return w.writeTimed(p)
}

// writeTimed writes in pieces, each of which must be read in time.
func (w *answerWriter) writeTimed(p []byte) (written int, err error) {
	deadlines, began := http.NewResponseController(w.ResponseWriter), time.Now()
	for written < len(p) {
		piece := p[written:min(len(p), written+pieceBytes)]
		inTime := unsent.Time(int64(written + len(piece)))
		_ = deadlines.SetWriteDeadline(began.Add(inTime)) // fails only without a connection
		n, err := w.ResponseWriter.Write(piece)
		if written += n; err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) > unsent.Time(int64(written)) {
				w.call.route.router.answers.CountSlow()
			}
			return written, err
		}
	}
	_ = deadlines.SetWriteDeadline(time.Now().Add(AnswerTimeout)) // for the rest
	return written, nil
}

// SetWriteDeadline is for handlers that limit the time themselves.
func (w *answerWriter) SetWriteDeadline(at time.Time) error {
	w.timed.Store(true)
	return http.NewResponseController(w.ResponseWriter).SetWriteDeadline(at)
}

// WriteHeader begins the answer.
func (w *answerWriter) WriteHeader(status int) {
	w.call.share.EndTurn()
	w.ResponseWriter.WriteHeader(status)
}

// Flush sends what is buffered.
func (w *answerWriter) Flush() {
	w.call.share.EndTurn()
	_ = http.NewResponseController(w.ResponseWriter).Flush()
}

// Unwrap returns net/http's writer.
func (w *answerWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
