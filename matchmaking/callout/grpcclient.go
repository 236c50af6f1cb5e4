package callout

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/tidemark-dev/tidemark/matchmaking/callout/jsonhttp"
)

// What a gRPC call tells of its queue.
const (
	metadataQueue  = "tidemark-queue" // of the call
	extensionQueue = "tidemark.queue" // of the profile, a google.protobuf.StringValue
)

const (
	grpcMessageBytes = 4 << 20 // of one message, as gRPC's own servers have it
	grpcPingAfter    = 15 * time.Second
	grpcPingTimeout  = 5 * time.Second
)

// newHTTP2 makes the client of a gRPC service. An http:// URL is called with HTTP/2 from the first byte on, as gRPC's
// servers without TLS expect. A connection that has nobody at its other end is given up, not used again and again.
func newHTTP2(url string, targets *jsonhttp.Targets) *http.Client {
	protocols := &http.Protocols{}
	if strings.HasPrefix(url, "http:") {
		protocols.SetUnencryptedHTTP2(true)
	} else {
		protocols.SetHTTP2(true)
	}
	transport := &http.Transport{
		Protocols: protocols, Proxy: http.ProxyFromEnvironment, IdleConnTimeout: 30 * time.Second,
		HTTP2: &http.HTTP2Config{SendPingTimeout: grpcPingAfter, PingTimeout: grpcPingTimeout},
	}
	targets.Restrict(transport)
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func grpcOptions() []connect.ClientOption {
	return []connect.ClientOption{connect.WithGRPC(), connect.WithReadMaxBytes(grpcMessageBytes)}
}

// why tells whether a call, whose context one is made of ctx, failed by itself, or since its time was over, or since its
// caller left.
func why(ctx, one context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(one.Err(), context.DeadlineExceeded):
		return jsonhttp.ErrTimeout
	}
	return err
}
