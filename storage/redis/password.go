package redis

import (
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
	"golang.org/x/time/rate"
)

// loginEvery is how often an open connection logs in again, so that it outlives a password which ends.
const loginEvery = time.Minute

// readPasswords returns options whose connections log in with the password of their time. rueidis asks for the
// credentials of Sentinels by the same function, with no more than the remote address: that of a Sentinel has a type of
// its own.
func (o Options) readPasswords(c rueidis.ClientOption) rueidis.ClientOption {
	current := o.credentials("redis", c.Username, c.Password, o.ReadPassword)
	if c.Sentinel.MasterSet == "" {
		c.AuthCredentialsFn = current
		return c
	}
	ofSentinels := o.credentials("the sentinels", c.Sentinel.Username, c.Sentinel.Password, o.Sentinel.ReadPassword)
	c.AuthCredentialsFn = func(to rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
		if _, ok := to.Address.(sentinelAddr); ok {
			return ofSentinels(to)
		}
		return current(to)
	}
	c.Sentinel.Dialer.Resolver = sentinelResolver
	dial := c.DialCtxFn
	c.DialCtxFn = func(ctx context.Context, address string, d *net.Dialer, config *tls.Config) (net.Conn, error) {
		conn, err := dial(ctx, address, d, config)
		if err != nil || d.Resolver != sentinelResolver {
			return conn, err
		}
		return sentinelConn{conn}, nil
	}
	return c
}

// sentinelResolver resolves names as the default resolver does. A dialer that has it is that of the Sentinels.
var sentinelResolver = &net.Resolver{}

// sentinelConn is a connection to a Sentinel.
type sentinelConn struct{ net.Conn }

// RemoteAddr implements net.Conn.
func (c sentinelConn) RemoteAddr() net.Addr { return sentinelAddr{c.Conn.RemoteAddr()} }

// sentinelAddr is the address of a Sentinel.
type sentinelAddr struct{ net.Addr }

// credentials returns the function that rueidis calls for each new connection, and, if the password can change, for open
// ones every loginEvery. If the password can't be read, it is that of the last time. If read is nil, it is always the
// given one.
func (o Options) credentials(of, user, password string, read func() (string, error)) func(
	rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
	if read == nil {
		return func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
			return rueidis.AuthCredentials{Username: user, Password: password}, nil
		}
	}
	var last atomic.Value // string
	last.Store(password)
	failures := rate.Sometimes{Interval: loginEvery}
	return func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
		password, err := read()
		if err != nil {
			failures.Do(func() {
				o.Logger.Warn("a password can't be read: logging in with the last one", "of", of, "error", err)
			})
			password = last.Load().(string)
		} else {
			last.Store(password)
		}
		return rueidis.AuthCredentials{
			Username: user, Password: password, RefreshAfter: time.Now().Add(loginEvery),
		}, nil
	}
}
