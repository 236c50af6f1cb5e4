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

// Where a gRPC call has the name of its queue.
const (
	metadataQueue  = "tidemark-queue" // of the call
	extensionQueue = "tidemark.queue" // of the profile, a google.protobuf.StringValue
)

const (
	grpcMessageBytes = 4 << 20 // of one message, the default of gRPC's own servers
	grpcPingAfter    = 15 * time.Second
	grpcPingTimeout  = 5 * time.Second
)

// newHTTP2 returns the HTTP client of a gRPC service. For an http:// URL it uses HTTP/2 with prior knowledge, as gRPC
// servers without TLS expect. Pings detect dead connections, which are then closed.
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

// callError returns why a call failed whose context, call, was derived from ctx: the end of ctx, the call's timeout, or err.
func callError(ctx, call context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(call.Err(), context.DeadlineExceeded):
		return jsonhttp.ErrTimeout
	}
	return err
}
