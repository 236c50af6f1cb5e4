package main

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/program/config"
)

// TestStrangersOfNodesGiveWay: clients without the token that keep all connections of a node's admin listener open shut
// out nobody who has it.
func TestStrangersOfNodesGiveWay(t *testing.T) {
	t.Parallel()
	a, err := newAdministration(func() error { return nil }, nodeNeeds{Config: config.ShardOptions{Token: "right"},
		Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry()})
	require.NoError(t, err)
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error)
	go func() { served <- a.serve(ctx, l) }()
	for range 2 * adminConnections {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String())
		require.NoError(t, err)
		defer func() { _ = conn.Close() }() // it may have given way
		_, err = io.WriteString(conn, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
		require.NoError(t, err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+l.Addr().String()+"/metrics",
		http.NoBody)
	require.NoError(t, err)
	request.Header.Set("Authorization", "Bearer right")
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(request)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusOK, answer.StatusCode)
	stop()
	require.NoError(t, <-served)
}
