package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/tidemark-dev/tidemark/internal/wire"
	"github.com/tidemark-dev/tidemark/openmatch"
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

// frontend is the floor of matchmaking: it stores nothing, matches nothing, and returns for each ticket an assignment
// at once.
type frontend struct {
	openmatch.UnimplementedFrontendServiceServer
}

// serveFrontend serves the floor of matchmaking by grpc-go.
func serveFrontend(ctx context.Context, address string) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	openmatch.RegisterFrontendServiceServer(server, frontend{})
	defer context.AfterFunc(ctx, server.Stop)()
	return server.Serve(listener)
}

// CreateTicket answers a ticket.
func (frontend) CreateTicket(_ context.Context, request *openmatch.CreateTicketRequest) (*openmatch.Ticket, error) {
	ticket := request.GetTicket()
	ticket.Id = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
	return ticket, nil
}

// WatchAssignments sends an assignment.
func (frontend) WatchAssignments(
	_ *openmatch.WatchAssignmentsRequest, stream grpc.ServerStreamingServer[openmatch.WatchAssignmentsResponse],
) error {
	assignment := &openmatch.Assignment{Connection: "127.0.0.1:7777"}
	if err := stream.Send(&openmatch.WatchAssignmentsResponse{Assignment: assignment}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return stream.Context().Err()
}
