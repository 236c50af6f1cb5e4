package rpc

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

const (
	authorization = "authorization"
	bearer        = "Bearer "
)

var errNoToken = status.Error(codes.Unauthenticated, "the call has no valid token")

// hasToken reports whether the headers of a call have the token with a SHA-256.
func hasToken(headers metadata.MD, want [sha256.Size]byte) bool {
	sent := headers[authorization]
	if len(sent) != 1 || len(sent[0]) < len(bearer) || !strings.EqualFold(sent[0][:len(bearer)], bearer) {
		return false
	}
	got := sha256.Sum256([]byte(sent[0][len(bearer):]))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1
}

// token is the metadata that a client sends with each call.
type token map[string]string

func newToken(text string) token { return token{authorization: bearer + text} }

// GetRequestMetadata returns the metadata of a call.
func (t token) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return t, nil
}

// RequireTransportSecurity returns false: a token may be configured without TLS.
func (t token) RequireTransportSecurity() bool { return false }
