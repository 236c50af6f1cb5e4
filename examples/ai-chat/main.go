// Command ai-chat serves a page that asks a stand-in for a model, whose answers are streams. README.md says how to
// start it.
package main

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-dev/tidemark/examples/internal/page"
)

//go:embed index.html style.css page.js
var files embed.FS

//go:embed answer.txt
var answer string

func main() {
	pace := flag.Duration("pace", 80*time.Millisecond, "`time` that the stand-in takes for a token")
	page.MainWith("ai-chat", "127.0.0.1:8093", files, func(ctx context.Context, mux *http.ServeMux, tidemark string) {
		m := &model{streams: tidemark + "/v1/stream/ai/", pace: *pace, http: http.Client{Timeout: 10 * time.Second}}
		m.log = slog.New(slog.NewTextHandler(os.Stderr, nil))
		mux.HandleFunc("POST /answers/{name...}", func(w http.ResponseWriter, r *http.Request) { m.ask(ctx, w, r) })
	})
}

// model answers questions, each on a stream of its own.
type model struct {
	streams string // the beginning of their URLs
	pace    time.Duration
	log     *slog.Logger
	http    http.Client
	running sync.Map // the names of the streams that are being written
}

// names matches the name of an answer: the chat, and the number of the question.
var names = regexp.MustCompile(`^[0-9a-f-]{36}/[1-9][0-9]?$`)

// ask begins an answer. It may be asked again at any time: the sequence makes sure that each token is stored once.
func (m *model) ask(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	question, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 4000))
	if err != nil || len(question) == 0 || !names.MatchString(name) {
		http.Error(w, "a question has 1 to 4000 bytes", http.StatusBadRequest)
		return
	}
	if err := m.send(r.Context(), http.MethodPut, name, nil, http.Header{"Stream-Ttl": {"86400"}}); err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	if _, is := m.running.LoadOrStore(name, true); !is {
		go m.answer(ctx, name, string(question))
	}
	w.WriteHeader(http.StatusAccepted)
}

// answer appends the question and the tokens of the answer, and closes the stream with the last one.
func (m *model) answer(ctx context.Context, name, question string) {
	defer m.running.Delete(name)
	values := []any{map[string]string{"question": question}}
	for token := range strings.SplitAfterSeq(strings.TrimSpace(answer), " ") {
		values = append(values, token)
	}
	pace := time.Tick(max(m.pace, 1))
	for seq, value := range values {
		header := http.Header{"Producer-Id": {"model"}, "Producer-Epoch": {"0"}, "Producer-Seq": {strconv.Itoa(seq)}}
		if seq == len(values)-1 {
			header.Set("Stream-Closed", "true")
		}
		body, _ := json.Marshal(value) // texts have a JSON
		if err := m.send(ctx, http.MethodPost, name, body, header); err != nil {
			m.log.Error("the answer ends early", "name", name, "error", err)
			return
		}
		<-pace
	}
}

// send sends a request until it is answered, which is how it survives a crash of the service.
func (m *model) send(ctx context.Context, method, name string, body []byte, header http.Header) error {
	header.Set("Content-Type", "application/json")
	for again := time.Tick(200 * time.Millisecond); ctx.Err() == nil; <-again {
		r, err := http.NewRequestWithContext(ctx, method, m.streams+name, bytes.NewReader(body)) //nolint:gosec // a checked name
		if err != nil {
			return err
		}
		r.Header = header
		answer, err := m.http.Do(r) //nolint:gosec // the same
		if err != nil {
			continue
		}
		_ = answer.Body.Close() // nothing in it is needed
		if code := answer.StatusCode; code < 300 {
			return nil
		} else if code < 500 && code != http.StatusTooManyRequests {
			return fmt.Errorf("%s %s: %s", method, name, answer.Status)
		}
	}
	return ctx.Err()
}
