package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/internal/wire"
)

// floorAddresses are where the floor listens.
type floorAddresses struct{ http, grpc string }

// serveFloor serves HTTP and gRPC until ctx ends: bare handlers, which do nothing but answer, for comparison.
func serveFloor(ctx context.Context, a floorAddresses) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return serveHTTP(ctx, a.http) })
	group.Go(func() error { return serveFrontend(ctx, a.grpc) })
	return group.Wait()
}

// serveHTTP serves the floor of a request: it reads the body and answers with the bytes that were PUT to /answer
// before, and with the status in that PUT's query.
func serveHTTP(ctx context.Context, address string) error {
	answer, status := []byte(nil), http.StatusOK
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.Handler())
	mux.HandleFunc("GET /livez", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("PUT /answer", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		code, codeErr := strconv.Atoi(r.URL.Query().Get("status"))
		if err != nil || codeErr != nil {
			http.Error(w, "bad answer", http.StatusBadRequest)
			return
		}
		answer, status = body, code
	})
	var streams floorStreams
	mux.HandleFunc("GET /stream", streams.serve)
	mux.HandleFunc("PUT /push", streams.push)
	mux.HandleFunc("/v1/", func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		if status != http.StatusNoContent {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
		}
		w.WriteHeader(status)
		_, _ = w.Write(answer) // fails if the client has disconnected
	})
	server := &http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// floorStreams is the floor of streams: the bytes that are PUT to /push go to each stream, which its own goroutine
// writes.
type floorStreams struct {
	mu  sync.Mutex
	all []chan []byte // until the floor ends
}

func (s *floorStreams) serve(w http.ResponseWriter, r *http.Request) {
	events := make(chan []byte, 1)
	s.mu.Lock()
	s.all = append(s.all, events)
	s.mu.Unlock()
	w.Header().Set("Content-Type", wire.MediaEvents)
	out := http.NewResponseController(w)
	for err := out.Flush(); err == nil; err = out.Flush() {
		select {
		case event := <-events:
			_, _ = w.Write(event) // Flush returns its error
		case <-r.Context().Done():
			return
		}
	}
}

func (s *floorStreams) push(_ http.ResponseWriter, r *http.Request) {
	event, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, events := range s.all {
		events <- event
	}
}
