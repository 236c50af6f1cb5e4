package grpcserver_test

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"google.golang.org/grpc"

	"github.com/tidemark-dev/tidemark/internal/grpcserver"
)

// pipes is a listener of connections in memory: what is written to one was read when the next write returns.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	conn, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (p pipes) Close() error {
	close(p)
	return nil
}

func (p pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

// serve starts a server without services. It has one connection, on which a client has sent texts. grpc-go waits for an
// hour for the rest of its preface.
func serve(t *testing.T, texts ...string) (s *grpcserver.Server, conn net.Conn) {
	t.Helper()
	l := make(pipes)
	s = grpcserver.New(grpc.NewServer(grpc.ConnectionTimeout(time.Hour)))
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() { require.NoError(t, <-served) })
	conn, accepted := net.Pipe()
	l <- accepted
	frame, err := http2.NewFramer(nil, conn).ReadFrame()
	require.NoError(t, err)
	require.IsType(t, &http2.SettingsFrame{}, frame)
	for _, text := range texts {
		_, err := io.WriteString(conn, text)
		require.NoError(t, err)
	}
	return s, conn
}

func TestDrainWithSilentConnections(t *testing.T) {
	t.Parallel()
	for _, sent := range []string{"", http2.ClientPreface[:10], http2.ClientPreface} {
		s, conn := serve(t, sent)
		require.True(t, s.Drain(t.Context()), "%q", sent)
		_, err := io.ReadAll(conn)
		require.NoError(t, err)
	}
}

// TestDrainEnds: a client sends a preface whose SETTINGS frame does not end.
func TestDrainEnds(t *testing.T) {
	t.Parallel()
	settings := "\x00\x40\x00\x04\x00\x00\x00\x00\x00"
	s, conn := serve(t, http2.ClientPreface+settings, "half", "of", "them")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	require.False(t, s.Drain(ctx))
	_, err := io.ReadAll(conn)
	require.NoError(t, err)
}
