package main

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// serveFloor is the floor of a server's work: it reads the request's body and answers the bytes that were PUT to
// /answer before, with the status of its query.
func serveFloor(ctx context.Context, address string) error {
	answer, status := []byte(nil), http.StatusOK
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.Handler())
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
		_, _ = w.Write(answer) // a client that has gone needs no answer
	})
	server := &http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	return ignoreClosed(server.ListenAndServe())
}
