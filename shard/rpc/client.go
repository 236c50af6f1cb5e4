package rpc

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/tidemark-dev/tidemark/shard"
	"github.com/tidemark-dev/tidemark/shard/rpc/shardpb"
)

// Defaults of ClientOptions.
const (
	DefaultMaxBytes = 16 << 20
	DefaultMaxCalls = 4096
)

// ClientOptions configures a client.
type ClientOptions struct {
	TLS      *tls.Config // nil: without TLS
	Token    string      // that nodes ask for; "": none
	MaxBytes int         // of an answer; 0: DefaultMaxBytes
	MaxCalls int         // in progress at one address: more fail at once; 0: DefaultMaxCalls
}

const (
	// A connection is closed if nothing is received for keepaliveTime, and then for keepaliveTimeout after a PING, or
	// if sent data isn't acknowledged for keepaliveTimeout. grpc-go allows no shorter times between PINGs.
	keepaliveTime    = 10 * time.Second
	keepaliveTimeout = 5 * time.Second

	answerHeaderBytes = 16 << 10 // of headers and trailers of an answer

	// A node that was restarted is found within the sum of both. Meanwhile calls fail at once.
	maxBackoff     = time.Second
	dialTimeout    = 2 * time.Second
	firstBackoff   = 100 * time.Millisecond
	backoffFactor  = 1.6
	backoffScatter = 0.2
)

// Client calls nodes. It is a shard.Transport, with one connection for each address, which is made with the first call.
// Calls fail at once while an address can't be reached. All methods may be called by several goroutines.
type Client struct {
	options  []grpc.DialOption
	maxCalls int64

	mu     sync.RWMutex
	hosts  map[string]*host // by address
	closed bool
}

// host is an address.
type host struct {
	conn  *grpc.ClientConn
	calls atomic.Int64 // in progress
}

var _ shard.Transport = (*Client)(nil)

// NewClient returns a client.
func NewClient(o ClientOptions) *Client {
	security := insecure.NewCredentials()
	if o.TLS != nil {
		security = credentials.NewTLS(o.TLS)
	}
	window := min(cmp.Or(o.MaxBytes, DefaultMaxBytes), math.MaxInt32-overhead) + overhead
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(security),
		grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(), grpc.WithNoProxy(), grpc.WithIdleTimeout(0),
		grpc.WithContextDialer(dialTCP), grpc.WithMaxHeaderListSize(answerHeaderBytes),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(window), grpc.StaticMethod()),
		// Windows of a fixed size make grpc-go send no PINGs to find a better one, and few updates.
		grpc.WithStaticStreamWindowSize(int32(window)), grpc.WithStaticConnWindowSize(int32(window)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{
			Time: keepaliveTime, Timeout: keepaliveTimeout, PermitWithoutStream: true,
		}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: firstBackoff, Multiplier: backoffFactor, Jitter: backoffScatter, MaxDelay: maxBackoff},
			MinConnectTimeout: dialTimeout,
		}),
	}
	if o.Token != "" {
		options = append(options, grpc.WithPerRPCCredentials(newToken(o.Token)))
	}
	return &Client{options: options, maxCalls: int64(cmp.Or(o.MaxCalls, DefaultMaxCalls)), hosts: map[string]*host{}}
}

// dialTCP connects to an address of a host: grpc-go's own dialer would also accept Unix sockets.
func dialTCP(ctx context.Context, address string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", address)
}

// Call sends a request to a node. Errors: those of shard.Transport; others for a permanent refusal: a wrong token, or
// an answer that is too large.
func (c *Client) Call(ctx context.Context, address string, r *shard.Request) (shard.Response, error) {
	h, err := c.host(address)
	if err != nil {
		return shard.Response{}, err
	}
	if h.calls.Add(1) > c.maxCalls {
		h.calls.Add(-1)
		return shard.Response{}, fmt.Errorf("%w: too many calls wait for it", shard.ErrUnavailable)
	}
	defer h.calls.Add(-1)
	in, out := &shardpb.GetRequest{Cache: r.Cache, Payload: r.Payload, ShardingKeys: r.Keys}, &shardpb.GetResponse{}
	if err := h.conn.Invoke(undated{ctx}, shardpb.ShardService_Get_FullMethodName, in, out); err != nil {
		return shard.Response{}, errorOf(ctx, err)
	}
	return shard.Response{
		Payload: out.GetPayload(), AllMatched: out.GetAllMatched(), Incarnation: out.GetIncarnation(), Assigned: out.GetShard() != nil,
		Shard: shard.Interval{First: out.GetShard().GetFirst(), Last: out.GetShard().GetLast()},
	}, nil
}

// undated is a context that hides its deadline: each call would have to encode it in its headers, and the node would
// need a timer for it, which both cost much time. The client notifies the node of the end of a call.
type undated struct{ context.Context } //nolint:containedctx // it is one

// Deadline returns none.
func (undated) Deadline() (time.Time, bool) { return time.Time{}, false }

// host returns the host at an address.
func (c *Client) host(address string) (*host, error) {
	c.mu.RLock()
	h := c.hosts[address]
	c.mu.RUnlock()
	if h != nil {
		return h, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if h := c.hosts[address]; h != nil {
		return h, nil
	}
	if c.closed {
		return nil, fmt.Errorf("%w: the client is closed", shard.ErrUnavailable)
	}
	conn, err := grpc.NewClient("passthrough:///"+address, c.options...)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", shard.ErrUnavailable, err)
	}
	h = &host{conn: conn}
	c.hosts[address] = h
	return h, nil
}

// Retain closes the connections to all other addresses. Calls on them fail.
func (c *Client) Retain(addresses []string) {
	kept := make(map[string]bool, len(addresses))
	for _, address := range addresses {
		kept[address] = true
	}
	c.close(func(address string) bool { return !kept[address] })
}

// Close closes all connections. Calls fail.
func (c *Client) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.close(func(string) bool { return true })
}

// close closes the connections to some addresses.
func (c *Client) close(which func(address string) bool) {
	var ended []*host
	c.mu.Lock()
	for address, h := range c.hosts {
		if which(address) {
			ended = append(ended, h)
			delete(c.hosts, address)
		}
	}
	c.mu.Unlock()
	for _, h := range ended {
		_ = h.conn.Close() // fails only if it is closed
	}
}
