package redis

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
)

// dialFunc opens a connection for rueidis.
type dialFunc func(ctx context.Context, address string, dialer *net.Dialer, config *tls.Config) (net.Conn, error)

// dialTCP opens a connection as rueidis does by itself.
func dialTCP(ctx context.Context, address string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
	if config == nil {
		return dialer.DialContext(ctx, "tcp", address)
	}
	return (&tls.Dialer{NetDialer: dialer, Config: config}).DialContext(ctx, "tcp", address)
}

// speakFirst returns a dialFunc for connections that read nothing before the first write.
//
// A Redis with as many clients as maxclients allows sends an error to each further one before it has asked anything. If
// the context of the request that needs a connection ends meanwhile, rueidis 1.0.79 closes the connection before its
// first command, but reads it until its last one is answered. It then takes the error for a reply that nobody asked for
// and panics.
func speakFirst(dial dialFunc) dialFunc {
	return func(ctx context.Context, address string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
		conn, err := dial(ctx, address, dialer, config)
		if err != nil {
			return nil, err
		}
		c := &speakingFirst{Conn: conn, spoken: make(chan struct{})}
		c.speak = sync.OnceFunc(func() { close(c.spoken) })
		return c, nil
	}
}

// speakingFirst is a connection that reads nothing before the first write.
type speakingFirst struct {
	net.Conn
	speak  func()
	spoken chan struct{} // closed by the first write, or by Close
}

// Read waits for the first write, whatever the deadline is: rueidis only waits with a deadline for what it asked for.
func (c *speakingFirst) Read(p []byte) (int, error) {
	<-c.spoken
	return c.Conn.Read(p)
}

func (c *speakingFirst) Write(p []byte) (int, error) {
	c.speak()
	return c.Conn.Write(p)
}

func (c *speakingFirst) Close() error {
	c.speak()
	return c.Conn.Close()
}
