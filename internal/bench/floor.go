package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"
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
