// Package floor has bare handlers, which do nothing but answer, for comparison.
package floor

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/tidemark-dev/tidemark/openmatch"
	"github.com/tidemark-dev/tidemark/openmatch/openmatchconnect"
)

// Serve is the floor of a server's work: it reads the request's body and answers the bytes that were PUT to
// /answer before, with the status of its query.
func Serve(ctx context.Context, address string) error {
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
	mux.Handle(openmatchconnect.NewFrontendServiceHandler(bareFrontend{}))
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Addr: address, Handler: mux, Protocols: protocols, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// bareFrontend is the floor of matchmaking: it stores nothing, matches nothing, and returns for each ticket an assignment
// at once.
type bareFrontend struct {
	openmatchconnect.UnimplementedFrontendServiceHandler
}

// CreateTicket answers a ticket.
func (bareFrontend) CreateTicket(
	_ context.Context, request *connect.Request[openmatch.CreateTicketRequest],
) (*connect.Response[openmatch.Ticket], error) {
	ticket := request.Msg.GetTicket()
	ticket.Id = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
	return connect.NewResponse(ticket), nil
}

// WatchAssignments sends an assignment.
func (bareFrontend) WatchAssignments(
	ctx context.Context, _ *connect.Request[openmatch.WatchAssignmentsRequest],
	stream *connect.ServerStream[openmatch.WatchAssignmentsResponse],
) error {
	if err := stream.Send(&openmatch.WatchAssignmentsResponse{Assignment: &openmatch.Assignment{Connection: "127.0.0.1:7777"}}); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}
