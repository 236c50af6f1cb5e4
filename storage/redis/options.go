package redis

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/rueidis"
)

// DefaultTimeout is how long an operation may take, its retries included, where Options.Timeout is zero.
const DefaultTimeout = 5 * time.Second

// Options says which Redis to use, and how.
type Options struct {
	// URL is redis://, rediss:// (TLS) or unix://, or a bare host:port. More hosts may follow, separated by
	// commas: redis://a:6379,b:6379. A user, a password and a database number may be part of it, and a Sentinel
	// master as ?master_set=name. A Cluster is recognized by itself.
	URL string
	// Username and Password stand in for those of the URL where they aren't empty.
	Username, Password string
	// TLS is used in place of the system's defaults; it implies TLS for a URL without rediss.
	TLS *tls.Config
	// SentinelMaster is the name of the master that the Sentinels at URL watch; empty: no Sentinel.
	SentinelMaster string
	// SentinelUsername and SentinelPassword are for the Sentinels themselves.
	SentinelUsername, SentinelPassword string
	// KeyPrefix stands in front of every key, so that several installations can share a Redis. No braces.
	KeyPrefix string
	// Timeout bounds an operation, its retries included; zero: DefaultTimeout.
	Timeout time.Duration
	// NotifyBytes is the size from which a message isn't part of its notification; zero: DefaultNotifyBytes.
	NotifyBytes int
	// LargeFetchBytes bounds how much of large fetches is under way from Redis at the same time; zero:
	// DefaultLargeFetchBytes.
	LargeFetchBytes int
	// Kind is told as channel.Storage.Kind; empty: what is found.
	Kind string
	// Logger gets what goes wrong behind the scenes. It is needed.
	Logger *slog.Logger
	// Metrics gets the store's metrics; nil: none are kept.
	Metrics prometheus.Registerer
}

// DefaultNotifyBytes is the size from which a message isn't part of its notification, where none is configured.
// Servers with waiters then fetch it.
const DefaultNotifyBytes = 16 << 10

// DefaultLargeFetchBytes is how much of large fetches is under way from Redis at the same time, where none is configured.
const DefaultLargeFetchBytes = 16 << 20

func (o Options) withDefaults() (Options, error) {
	if strings.ContainsAny(o.KeyPrefix, "{}") || strings.ContainsFunc(o.KeyPrefix, unprintable) {
		return o, fmt.Errorf("key prefix %q: braces, spaces and control characters aren't allowed", o.KeyPrefix)
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Timeout < 0 {
		return o, errors.New("timeout is negative")
	}
	if o.NotifyBytes == 0 {
		o.NotifyBytes = DefaultNotifyBytes
	}
	if o.LargeFetchBytes == 0 {
		o.LargeFetchBytes = DefaultLargeFetchBytes
	}
	if o.LargeFetchBytes < 0 {
		return o, errors.New("the bytes of large fetches are negative")
	}
	return o, nil
}

func unprintable(r rune) bool { return r <= ' ' || r == 0x7f }

// client gives the options for rueidis. Its own retries are off: retry.go decides what is tried again.
func (o Options) client() (rueidis.ClientOption, error) {
	c, err := parseURL(o.URL)
	if err != nil {
		return c, err
	}
	if o.Username != "" {
		c.Username = o.Username
	}
	if o.Password != "" {
		c.Password = o.Password
	}
	if o.TLS != nil {
		c.TLSConfig = o.TLS
	}
	if o.SentinelMaster != "" {
		c.Sentinel.MasterSet = o.SentinelMaster
	}
	c.Dialer.Timeout, c.Dialer.KeepAlive = min(o.Timeout/2, silence), rueidis.DefaultTCPKeepAlive
	if c.Sentinel.MasterSet != "" {
		c.Sentinel.TLSConfig, c.Sentinel.Dialer = c.TLSConfig, c.Dialer
		c.Sentinel.Username, c.Sentinel.Password = o.SentinelUsername, o.SentinelPassword
		c.Sentinel.TopologyRefreshInterval = 5 * time.Second // a missed +switch-master is noticed all the same
	}
	c.ClientName = "tidemark"
	c.PipelineMultiplex = -1                // one connection to a node: concurrent requests share its pipeline
	c.MaxFlushDelay = 20 * time.Microsecond // and so more of them share a system call, here and in Redis
	c.DisableCache = true
	c.DisableRetry = true
	c.ConnWriteTimeout = c.Dialer.Timeout
	c.AlwaysPipelining = true // otherwise who is alone on a connection can't be cancelled, and closes it at a deadline
	c.ClusterOption.MaxMovedRedirections = maxRedirections
	return c, nil
}

// silence is how long Redis may take to answer a new connection, or a ping on one that is otherwise silent, before
// the connection is given up: while requests can still be tried again on another one. The Sentinel client tries a
// primary that doesn't answer several times over before it hears of the next one, so it can't be much longer.
const silence = 2 * time.Second

// maxRedirections bounds how often a call goes on to another node of a cluster at once. Nodes that don't agree on a
// slot's owner can send it to and fro until they do; then retry.go waits a little.
const maxRedirections = 4

// errURL never has a part of the URL in it, since any part may be a piece of a password with a character too many.
var errURL = errors.New("the URL can't be read: it must be like redis://user:password@host:6379/0, " +
	"with special characters in user and password percent-encoded")

// parseURL takes a URL with one host or several, or a bare list of hosts.
func parseURL(text string) (rueidis.ClientOption, error) {
	if text == "" {
		return rueidis.ClientOption{}, errors.New("the URL is empty")
	}
	if !strings.Contains(text, "://") {
		text = "redis://" + text
	}
	scheme, rest, _ := strings.Cut(text, "://")
	switch scheme {
	case "unix":
		return parseSocket(text)
	case "redis", "rediss":
	default:
		return rueidis.ClientOption{}, errors.New("the URL's scheme must be redis, rediss or unix")
	}
	authority, tail := rest, ""
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		authority, tail = rest[:i], rest[i:]
	}
	user, list := "", authority
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		user, list = authority[:i+1], authority[i+1:]
	}
	if rest, ok := strings.CutPrefix(tail, "/"); ok && (rest == "" || rest[0] == '?') {
		tail = rest // no database is named
	}
	u, err := url.Parse(scheme + "://" + user + "host" + tail)
	if err != nil || strings.Contains(tail, "@") {
		return rueidis.ClientOption{}, errURL
	}
	addresses, err := hosts(append(strings.Split(list, ","), u.Query()["addr"]...))
	if err != nil {
		return rueidis.ClientOption{}, err
	}
	c, err := rueidis.ParseURL(scheme + "://" + user + addresses[0] + tail)
	if err != nil {
		return rueidis.ClientOption{}, errURL
	}
	c.InitAddress = addresses
	if c.TLSConfig != nil && (len(addresses) > 1 || c.Sentinel.MasterSet != "") {
		c.TLSConfig.ServerName = "" // each host is asked for its own name
	}
	return c, nil
}

// parseSocket takes the URL of a socket.
func parseSocket(text string) (rueidis.ClientOption, error) {
	if u, err := url.Parse(text); err != nil || u.Host != "" || len(u.Path) < 2 {
		return rueidis.ClientOption{}, errors.New("the URL of a socket must be like unix:///run/redis.sock")
	}
	c, err := rueidis.ParseURL(text)
	if err != nil {
		return rueidis.ClientOption{}, errURL
	}
	return c, nil
}

// hosts checks hosts and gives each its port.
func hosts(list []string) ([]string, error) {
	addresses := make([]string, 0, len(list))
	for i, host := range list {
		host = strings.TrimSpace(host)
		name, port, err := net.SplitHostPort(host)
		if err != nil {
			name, port = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"), defaultPort
		}
		if strings.Contains(name, ":") && net.ParseIP(name) == nil {
			return nil, fmt.Errorf("host %d of the URL isn't like name:6379 or [::1]:6379", i+1)
		}
		if n, err := strconv.ParseUint(port, 10, 16); host == "" || err != nil || n == 0 {
			return nil, fmt.Errorf("host %d of the URL is empty or has no valid port", i+1)
		}
		addresses = append(addresses, net.JoinHostPort(cmp.Or(name, "localhost"), port))
	}
	return addresses, nil
}

const defaultPort = "6379"

// bulkOptions returns the options of the second client, for large reads and replicated writes. Without pipelining and pings
// in the background its dedicated connections never unsubscribe when they are released: see package pubsub. timeout is that
// of the Conn: WAIT, and a large reply, may take as long.
func bulkOptions(c rueidis.ClientOption, timeout time.Duration) rueidis.ClientOption {
	c.ClientName = "tidemark-bulk"
	c.AlwaysPipelining = false
	c.ConnWriteTimeout = timeout
	c.Dialer.KeepAliveConfig = net.KeepAliveConfig{Enable: true, Idle: c.Dialer.KeepAlive, Interval: c.Dialer.KeepAlive}
	c.Dialer.KeepAlive = -1
	c.BlockingPoolCleanup = 10 * time.Second
	return c
}
