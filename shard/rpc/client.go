package rpc

import (
	"context"
	"crypto/tls"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/tidemark-dev/tidemark/shard"
	"github.com/tidemark-dev/tidemark/shard/rpc/shardpb"
)

// DefaultMaxBytes is the largest message of a call, unless it is configured.
const DefaultMaxBytes = 16 << 20

// ClientOptions configures a client.
type ClientOptions struct {
	TLS      *tls.Config // nil: without TLS
	Token    string      // that nodes ask for; "": none
	MaxBytes int         // of an answer; 0: DefaultMaxBytes
}

// Client calls nodes. It is a shard.Transport, with one connection for each address, which is made with the first call. All methods
// may be called by several goroutines.
type Client struct {
	options []grpc.DialOption

	mu     sync.RWMutex
	conns  map[string]*grpc.ClientConn // by address
	closed bool
}

var _ shard.Transport = (*Client)(nil)

// NewClient returns a client.
func NewClient(o ClientOptions) *Client {
	creds := insecure.NewCredentials()
	if o.TLS != nil {
		creds = credentials.NewTLS(o.TLS)
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(creds), grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(), grpc.WithNoProxy(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(DefaultMaxBytes), grpc.StaticMethod()),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second, PermitWithoutStream: true}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: 2 * time.Second,
		}),
		grpc.WithIdleTimeout(0),
	}
	return &Client{options: options, conns: map[string]*grpc.ClientConn{}}
}

// Call asks a node.
func (c *Client) Call(ctx context.Context, address string, r *shard.Request) (shard.Response, error) {
	conn, err := c.conn(address)
	if err != nil {
		return shard.Response{}, err
	}
	out := &shardpb.GetResponse{}
	in := &shardpb.GetRequest{Cache: r.Cache, Payload: r.Payload, ShardingKeys: r.Keys}
	if err := conn.Invoke(ctx, shardpb.ShardService_Get_FullMethodName, in, out); err != nil {
		return shard.Response{}, heard(ctx, err)
	}
	return shard.Response{
		Payload: out.GetPayload(), AllMatched: out.GetAllMatched(), Incarnation: out.GetIncarnation(), Assigned: out.GetShard() != nil,
		Shard: shard.Interval{First: out.GetShard().GetFirst(), Last: out.GetShard().GetLast()},
	}, nil
}

// conn returns the connection to an address.
func (c *Client) conn(address string) (*grpc.ClientConn, error) {
	c.mu.RLock()
	conn := c.conns[address]
	c.mu.RUnlock()
	if conn != nil {
		return conn, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if conn := c.conns[address]; conn != nil {
		return conn, nil
	}
	if c.closed {
		return nil, fmt.Errorf("%w: the client is closed", shard.ErrUnavailable)
	}
	conn, err := grpc.NewClient("passthrough:///"+address, c.options...)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", shard.ErrUnavailable, err)
	}
	c.conns[address] = conn
	return conn, nil
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
	var ended []*grpc.ClientConn
	c.mu.Lock()
	for address, conn := range c.conns {
		if which(address) {
			ended = append(ended, conn)
			delete(c.conns, address)
		}
	}
	c.mu.Unlock()
	for _, conn := range ended {
		_ = conn.Close() // fails only if it is closed
	}
}
