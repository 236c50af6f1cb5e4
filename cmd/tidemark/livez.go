package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/tidemark-dev/tidemark/internal/program/config"
)

// livez requests /livez of a listener on this machine, each time on a new connection.
type livez struct {
	url       string
	transport *http.Transport
	shown     *atomic.Pointer[x509.Certificate] // by the listener; nil: none yet
}

// newLivez returns the request for an address, which is host:port or unix: and a path. The listener may show any
// certificate, since nothing secret is sent.
func newLivez(address string, isTLS bool) livez {
	l := livez{transport: &http.Transport{DisableKeepAlives: true}, shown: new(atomic.Pointer[x509.Certificate])}
	if path, ok := strings.CutPrefix(address, config.UnixPrefix); ok {
		l.url = "http://localhost/livez"
		l.transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}
		return l
	}
	l.url = "http://" + address + "/livez"
	if !isTLS {
		return l
	}
	l.url = "https://" + address + "/livez"
	l.transport.TLSClientConfig = &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, //nolint:gosec // nothing secret is sent
		VerifyConnection: func(state tls.ConnectionState) error {
			l.shown.Store(state.PeerCertificates[0])
			return nil
		},
	}
	return l
}

// overHTTP2 returns the request for a listener of gRPC only, whose answer is an error of HTTP.
func (l livez) overHTTP2() livez {
	l.transport.Protocols = new(http.Protocols)
	l.transport.Protocols.SetHTTP2(true)
	l.transport.Protocols.SetUnencryptedHTTP2(true)
	return l
}

// request returns the answer. The caller closes its body.
func (l livez) request(ctx context.Context) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, l.url, http.NoBody)
	if err != nil {
		return nil, err
	}
	request.Host = "localhost" // which every service accepts
	return l.transport.RoundTrip(request)
}

// isAlert reports whether a request failed by an alert of a TLS server, such as of one that asks for a certificate.
func isAlert(err error) bool {
	var failed *net.OpError
	return errors.As(err, &failed) && failed.Op == "remote error" // as crypto/tls has it
}
