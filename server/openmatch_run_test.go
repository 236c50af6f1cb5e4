package server_test

import (
	"testing"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/openmatch"
)

// TestDrainOfCalls ends the context of Run while players watch, over HTTP/1.1 and HTTP/2: all are told, and Run ends.
func TestDrainOfCalls(t *testing.T) {
	t.Parallel()
	r := &rpcHarness{harness: start(t, withQueues("large", `{"match":{"teamSize":50}}`))}
	r.url = r.harness.url
	var watches []*watching
	for _, p := range protocols {
		f := r.frontend(p)
		watches = append(watches, r.watch(f, r.create(f, &openmatch.Ticket{SearchFields: &openmatch.SearchFields{}}, header{"tidemark-queue", "large"}).GetId()))
	}
	r.awaitWaiting(len(protocols))
	r.stop()
	for _, w := range watches {
		ends(t, w, connect.CodeUnavailable, "the server is shutting down")
	}
	require.NoError(t, <-r.stopped)
}
