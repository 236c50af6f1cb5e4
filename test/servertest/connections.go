package servertest

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// Everything are grants of all actions on everything.
const Everything = `[{"actions":["publish","subscribe","describe","ticket","queue","admin"]}]`

// Connect opens a connection, and sends text as it is.
func (h *Harness) Connect(text string) net.Conn {
	h.TB.Helper()
	return h.ConnectFrom(1, text)
}

// ConnectFrom is Connect from the address 127.0.0.<last>: without credentials a client is its address.
func (h *Harness) ConnectFrom(last byte, text string) net.Conn {
	h.TB.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, last)}}
	conn, err := dialer.DialContext(h.TB.Context(), "tcp", h.Addr)
	require.NoError(h.TB, err)
	h.TB.Cleanup(func() { _ = conn.Close() }) // it may be closed already
	_, err = io.WriteString(conn, text)
	require.NoError(h.TB, err)
	return conn
}

// StatusOn reads an answer from a connection.
func StatusOn(t *testing.T, conn net.Conn) int {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp.StatusCode
}

// Evil is an origin that the server doesn't trust.
const Evil = "https://evil.example.com"
