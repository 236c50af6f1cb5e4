package main

import (
	"crypto/tls"
	"net/http"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/certs/certstest"
)

// issue writes an authority, ca.pem, and certificates that it has signed, such as server.pem and server-key.pem, into
// dir.
func issue(t *testing.T, dir string, names ...string) *certstest.Authority {
	t.Helper()
	authority, err := certstest.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if _, err := authority.Issue(name); err != nil {
			t.Fatal(err)
		}
	}
	return authority
}

// TestRenewedCertificate replaces the certificate while clients publish: no request fails, and new connections get the
// new certificate.
func TestRenewedCertificate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	authority := issue(t, dir, "server")
	s := startServer(t, "--tls-cert", filepath.Join(dir, "server.pem"), "--tls-key",
		filepath.Join(dir, "server-key.pem"))
	require.Contains(t, s.url, "https://")
	trusting, err := authority.Client()
	require.NoError(t, err)
	serial := func() int64 {
		conn, err := (&tls.Dialer{Config: trusting}).DialContext(t.Context(), "tcp", s.url[len("https://"):])
		require.NoError(t, err)
		defer func() { require.NoError(t, conn.Close()) }()
		return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	before := serial()

	var publishing sync.WaitGroup
	stop := make(chan struct{})
	for _, reuse := range []bool{true, false} {
		transport := &http.Transport{TLSClientConfig: trusting.Clone(), ForceAttemptHTTP2: true,
			DisableKeepAlives: !reuse}
		c, err := client.New(s.url, client.WithRetry(client.RetryPolicy{MaxTries: 1}),
			client.WithHTTPClient(&http.Client{Transport: transport}))
		require.NoError(t, err)
		publishing.Go(func() {
			defer transport.CloseIdleConnections()
			for {
				if _, err := c.Publish(t.Context(), "c", client.Draft{Content: []byte("1")}); err != nil {
					t.Error(err)
					return
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	_, err = authority.Issue("server")
	require.NoError(t, err)
	eventually(t, func() bool { return serial() > before })
	close(stop)
	publishing.Wait()
}
