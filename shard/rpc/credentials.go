package rpc

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"net"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
)

const (
	authorization = "authorization"
	bearer        = "Bearer "
)

var errNoToken = status.Error(codes.Unauthenticated, "the call has no valid token")

// guard refuses calls without a token, before anything else of them is read. Health checks need none: probes can't have one.
type guard struct{ hash [sha256.Size]byte }

func (g guard) admit(ctx context.Context, call *tap.Info) (context.Context, error) {
	if strings.HasPrefix(call.FullMethodName, "/"+grpc_health_v1.Health_ServiceDesc.ServiceName+"/") {
		return ctx, nil
	}
	header := call.Header[authorization]
	if len(header) != 1 || len(header[0]) < len(bearer) || !strings.EqualFold(header[0][:len(bearer)], bearer) {
		return ctx, errNoToken
	}
	hash := sha256.Sum256([]byte(header[0][len(bearer):]))
	if subtle.ConstantTimeCompare(hash[:], g.hash[:]) != 1 {
		return ctx, errNoToken
	}
	return ctx, nil
}

// token is what a client shows with each call.
type token map[string]string

func newToken(text string) token { return token{authorization: bearer + text} }

// GetRequestMetadata returns the metadata of a call.
func (t token) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return t, nil
}

// RequireTransportSecurity returns false: a token may be configured without TLS.
func (t token) RequireTransportSecurity() bool { return false }

// handshakes are credentials whose connections can be had from the contexts of their calls.
type handshakes struct {
	credentials.TransportCredentials
}

// connected is a connection, and what is known of its client.
type connected struct {
	credentials.AuthInfo
	conn   net.Conn
	unread *atomic.Int64 // bytes of answers that weren't sent yet, since the client doesn't read
}

// ServerHandshake runs the handshake of a connection.
func (h handshakes) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	secure, info, err := h.TransportCredentials.ServerHandshake(conn)
	return secure, connected{AuthInfo: info, conn: conn, unread: new(atomic.Int64)}, err
}

// Clone returns a copy.
func (h handshakes) Clone() credentials.TransportCredentials {
	return handshakes{h.TransportCredentials.Clone()}
}

// transport returns the credentials of connections; nil: without TLS.
func transport(c *tls.Config) credentials.TransportCredentials {
	if c == nil {
		return insecure.NewCredentials()
	}
	return credentials.NewTLS(c)
}
