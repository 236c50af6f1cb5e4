package servertest

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/stretchr/testify/require"
)

// Raw sends bytes as they are, closes its side of the connection, and returns the answer.
func (h *Harness) Raw(request string) Answer {
	h.TB.Helper()
	conn, err := (&net.Dialer{}).DialContext(h.TB.Context(), "tcp", h.Addr)
	require.NoError(h.TB, err)
	defer func() { require.NoError(h.TB, conn.Close()) }()
	_, err = io.WriteString(conn, request)
	require.NoError(h.TB, err)
	_ = conn.(*net.TCPConn).CloseWrite() // fails if the server has closed the connection after its answer
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(h.TB, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(h.TB, err)
	require.NoError(h.TB, resp.Body.Close())
	got := Answer{TB: h.TB, Status: resp.StatusCode, Header: resp.Header, Body: body}
	got.IsSafe()
	return got
}

// Cut splits METHOD path body.
func Cut(call string) (method, path, body string) {
	method, rest, _ := strings.Cut(call, " ")
	path, body, _ = strings.Cut(rest, " ")
	return method, path, body
}

// Keys returns the keys of the channels and their values.
func (h *Harness) Keys() map[string]string {
	h.TB.Helper()
	keys, err := h.Redis.Do(h.TB, "KEYS", h.Prefix+"*").AsStrSlice()
	require.NoError(h.TB, err)
	values := map[string]string{}
	for _, key := range keys {
		dump, err := h.Redis.Do(h.TB, "DUMP", key).ToString()
		require.NoError(h.TB, err)
		values[key] = dump
	}
	return values
}
