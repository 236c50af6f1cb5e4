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
	current := o.credentials(c.Username)
	if c.Sentinel.MasterSet == "" {
		c.AuthCredentialsFn = current
		return c
	}
	sentinels := rueidis.AuthCredentials{Username: c.Sentinel.Username, Password: c.Sentinel.Password}
	c.AuthCredentialsFn = func(to rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
		if _, ok := to.Address.(sentinelAddr); ok {
			return sentinels, nil
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

// credentials returns the function that rueidis calls for each new connection, and for open ones every loginEvery. If
// the password can't be read, it is that of the last time.
func (o Options) credentials(user string) func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
	var last atomic.Value // string
	last.Store(o.Password)
	failures := rate.Sometimes{Interval: loginEvery}
	return func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
		password, err := o.ReadPassword()
		if err != nil {
			failures.Do(func() {
				o.Logger.Warn("the password of redis can't be read: logging in with the last one", "error", err)
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
