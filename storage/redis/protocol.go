package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/storage/redis/internal/refusal"
)

// identifyIn limits how long it may take to find what listens at all addresses, and probeIn at one.
const (
	identifyIn = 2 * time.Second
	probeIn    = identifyIn / 4
)

// identify returns an error if a server at one of the addresses isn't a Redis that speaks as the options say. The
// client must not connect to such a server: it panics on replies that it didn't ask for.
func (c *Conn) identify(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), identifyIn)
	defer cancel()
	for _, address := range c.options.InitAddress {
		found, reply := c.protocolAt(ctx, address)
		if advice := c.adviceOfProtocol(address, found); advice != "" {
			return refusal.Explained(fmt.Errorf("%w: to a PING it replied %.100q", ErrProtocol, reply), advice)
		}
	}
	return nil
}

// identifyEvery is the minimum time between two looks at what listens at the addresses of a Conn in use.
const identifyEvery = 10 * time.Second

// lookFor looks in the background what listens at the addresses after an error of the connection, and logs what to
// change, if anything: another program may have taken the port of Redis, or Redis was started with TLS.
func (c *Conn) lookFor(ctx context.Context, err error) {
	if code(err) != codeNetwork || errors.Is(err, context.Canceled) {
		return
	}
	ctx = context.WithoutCancel(ctx)
	c.unlike.look(func() {
		if err := c.identify(ctx); err != nil {
			c.logger.WarnContext(ctx, "redis can't be used", "error", err)
		}
	})
}

// protocol is the protocol of a server.
type protocol string

const (
	protocolRedis protocol = "Redis"
	protocolTLS   protocol = "TLS"
	protocolHTTP  protocol = "HTTP"
	protocolHTTP2 protocol = "HTTP/2, as gRPC does"
	protocolOther protocol = "a protocol that isn't Redis's"
)

// adviceOfProtocol returns what to change if a server speaks another protocol than the options say, or "".
func (c *Conn) adviceOfProtocol(address string, found protocol) string {
	option, encrypted := c.adviser.Option, c.options.TLSConfig != nil
	switch {
	case found == "", found == protocolRedis && !encrypted, found == protocolTLS && encrypted:
		return ""
	case found == protocolRedis:
		return fmt.Sprintf("%s speaks Redis without TLS: set --%s to redis:// in place of rediss://, "+
			"and don't set --redis-ca-file and --redis-cert-file", address, option)
	case found == protocolTLS:
		return fmt.Sprintf("%s speaks TLS: set --%s to rediss://, and --redis-ca-file unless an authority of the system "+
			"has signed Redis's certificate", address, option)
	}
	return fmt.Sprintf("%s speaks %s, so it is no Redis: set --%s to the address of one", address, found, option)
}

// protocolAt returns what the server at an address speaks, or "" if that can't be found, and its reply to a PING.
func (c *Conn) protocolAt(ctx context.Context, address string) (protocol, string) {
	//nolint:gosec // nothing but a PING is sent, to see whether TLS is spoken
	encrypted := &tls.Config{InsecureSkipVerify: true}
	if c.options.TLSConfig == nil {
		if reply := c.ping(ctx, address, nil); reply != "" {
			return protocolOf(reply), reply
		}
		if reply := c.ping(ctx, address, encrypted); reply != "" {
			return protocolTLS, reply
		}
		return "", ""
	}
	if reply := c.ping(ctx, address, encrypted); reply != "" {
		if found := protocolOf(reply); found != protocolRedis {
			return found, reply
		}
		return protocolTLS, reply
	}
	reply := c.ping(ctx, address, nil)
	return protocolOf(reply), reply
}

// ping sends a PING, and returns the beginning of the reply, or "" without one.
func (c *Conn) ping(ctx context.Context, address string, config *tls.Config) string {
	ctx, cancel := context.WithTimeout(ctx, probeIn)
	defer cancel()
	dialer := c.options.Dialer
	conn, err := c.options.DialCtxFn(ctx, address, &dialer, config)
	if err != nil {
		return replyOfHandshake(err)
	}
	defer conn.Close() //nolint:errcheck // nothing was written that matters
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline) // without one, the limits of Redis end it
	}
	if _, err := conn.Write([]byte("*1\r\n$4\r\nPING\r\n")); err != nil {
		return ""
	}
	reply := make([]byte, 100)
	n, err := conn.Read(reply)
	if n == 0 {
		return replyOfHandshake(err) // TLS 1.3 reports a missing certificate after the handshake
	}
	return string(reply[:n])
}

// replyOfHandshake returns the alert with which a server refused a TLS handshake, or "".
func replyOfHandshake(err error) string {
	var alert tls.AlertError
	if errors.As(err, &alert) {
		return string(tlsAlert)
	}
	return ""
}

// The first bytes of messages of TLS.
const tlsAlert, tlsHandshake = '\x15', '\x16'

func protocolOf(reply string) protocol {
	switch {
	case reply == "":
		return ""
	case strings.HasPrefix(reply, "+PONG"), strings.HasPrefix(reply, "-ERR max number of clients"),
		reply[0] == '-' && !strings.HasPrefix(reply, "-ERR"): // such as NOAUTH and LOADING
		return protocolRedis
	case reply[0] == tlsAlert, reply[0] == tlsHandshake:
		return protocolTLS
	case strings.HasPrefix(reply, "HTTP/"):
		return protocolHTTP
	case len(reply) >= 9 && reply[:2] == "\x00\x00" && reply[3] == 4: // SETTINGS, the first frame
		return protocolHTTP2
	}
	return protocolOther
}
