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

// DefaultTimeout is the default time limit of an operation, its retries included.
const DefaultTimeout = 5 * time.Second

// Options configures a Conn. URL and Logger are needed.
type Options struct {
	// URL is redis://, rediss:// (TLS) or unix://, or a bare host:port. More hosts may follow, separated by
	// commas: redis://a:6379,b:6379. A user, a password and a database number may be part of it, and a Sentinel
	// master as ?master_set=name. A Cluster is detected automatically.
	URL string
	// Username and Password replace those of the URL where they aren't empty.
	Username, Password string
	// ReadPassword returns the current password, in place of Password; nil: it never changes. It is called for each new
	// connection, and every minute for those that are open, which log in again. Password is that of the start, which is
	// used as long as ReadPassword fails. Connections to Sentinels have the password of Sentinel.
	ReadPassword func() (string, error)
	// TLS replaces the system's defaults; it implies TLS for a URL without rediss.
	TLS *tls.Config
	// Sentinel is used if the hosts of URL are Sentinels.
	Sentinel Sentinel
	// KeyPrefix is the prefix of every key, so that several installations can share a Redis. No braces.
	KeyPrefix string
	// PlainKeys is whether keys of records have no braces. Then those of one operation can have different slots, and
	// Connect refuses a Cluster.
	PlainKeys bool
	// Timeout limits an operation, its retries included; zero: DefaultTimeout.
	Timeout time.Duration
	// LargeReadBytes limits the bytes of large reads in transit from Redis; zero: DefaultLargeReadBytes.
	LargeReadBytes int
	// Replica accepts a standalone Redis that is a replica, for reading only.
	Replica bool
	// Option is the name of the program's option that holds URL, for advice in errors; empty: redis.
	Option string
	// Kind replaces the kind that Inspect finds; empty: the kind found.
	Kind string
	// Logger logs failures in the background.
	Logger *slog.Logger
	// Metrics registers the connection's metrics; nil: none are kept.
	Metrics prometheus.Registerer
}

// Sentinel configures how to ask Sentinels for a primary.
type Sentinel struct {
	Master             string // name of the primary that they watch; empty: no Sentinel
	Username, Password string // of the Sentinels themselves
	// ReadPassword returns their current password, as Options.ReadPassword does that of Redis; nil: it never changes.
	ReadPassword func() (string, error)
}

// DefaultLargeReadBytes is the default limit of large reads in transit from Redis at the same time.
const DefaultLargeReadBytes = 16 << 20

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
	if o.LargeReadBytes == 0 {
		o.LargeReadBytes = DefaultLargeReadBytes
	}
	if o.LargeReadBytes < 0 {
		return o, errors.New("the bytes of large reads are negative")
	}
	return o, nil
}

func unprintable(r rune) bool { return r <= ' ' || r == 0x7f }

// client returns the options for rueidis, without its own retries: Retry decides which calls are retried.
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
	if o.Sentinel.Master != "" {
		c.Sentinel.MasterSet = o.Sentinel.Master
	}
	c.Dialer.Timeout, c.Dialer.KeepAlive = min(o.Timeout/2, silence), rueidis.DefaultTCPKeepAlive
	if c.Sentinel.MasterSet != "" {
		c.Sentinel.TLSConfig, c.Sentinel.Dialer = c.TLSConfig, c.Dialer
		c.Sentinel.Username, c.Sentinel.Password = o.Sentinel.Username, o.Sentinel.Password
		c.Sentinel.TopologyRefreshInterval = refreshEvery // notices a missed +switch-master
	}
	c.ClientName = "tidemark"
	c.PipelineMultiplex = -1                // one connection to a node, whose pipeline concurrent requests share
	c.MaxFlushDelay = 20 * time.Microsecond // lets more of them share a system call, here and in Redis
	c.ReadBufferEachConn, c.WriteBufferEachConn = connBuffer, connBuffer
	c.DisableCache = true
	c.DisableRetry = true
	c.ConnWriteTimeout = c.Dialer.Timeout
	// otherwise a request alone on a connection can't be cancelled, and closes it at a deadline
	c.AlwaysPipelining = true
	c.ClusterOption.MaxMovedRedirections = maxRedirections
	c.ClusterOption.ShardsRefreshInterval = refreshEvery // notices new replicas, one of which may be promoted
	if c.DialCtxFn == nil {
		c.DialCtxFn = dialTCP
	}
	c.DialCtxFn = speakFirst(c.DialCtxFn)
	if o.ReadPassword != nil || o.Sentinel.ReadPassword != nil {
		c = o.readPasswords(c)
	}
	return c, nil
}

// silence is how long Redis may take to answer a new connection, or a ping on an idle one, before the connection is
// closed, while requests can still be tried again on another one. The Sentinel client tries a primary that doesn't
// answer several times before it learns of the next one, so it can't be much longer.
const silence = 2 * time.Second

// maxRedirections limits how often a call follows a redirection at once. Nodes that don't agree on a slot's owner can
// redirect it to each other until they do; Retry waits a little then.
const maxRedirections = 4

// errURL contains no part of the URL, since any part may be of a password with an unescaped character.
var errURL = errors.New("the URL can't be read: it must be like redis://user:password@host:6379/0, " +
	"with special characters in user and password percent-encoded")

// parseURL parses a URL with one or more hosts, or a bare list of hosts.
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
		c.TLSConfig.ServerName = "" // each host's certificate is checked for its own name
	}
	return c, nil
}

// parseSocket parses the URL of a socket.
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

// hosts checks hosts and adds the default port where none is given.
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

// connBuffer is the size of each buffer of a connection. Large replies are read past it. The default of 512 KiB took a
// megabyte for each connection of an idle service, and hundreds while publishes wait for replicas that are cut off.
const connBuffer = 64 << 10

// bulkRing is the binary logarithm of the number of commands that a connection of the second client can have under way:
// each is used by one request at a time.
const bulkRing = 8

// bulkOptions returns the options of the second client, for large reads and replicated writes. Without pipelining and
// pings in the background its dedicated connections never unsubscribe when they are released: see package pubsub.
// timeout is that of the Conn: WAIT, and a large reply, may take as long.
func bulkOptions(c rueidis.ClientOption, timeout time.Duration) rueidis.ClientOption {
	c.ClientName = "tidemark-bulk"
	c.AlwaysPipelining = false
	c.ConnWriteTimeout = timeout
	c.Dialer.KeepAliveConfig = net.KeepAliveConfig{Enable: true, Idle: c.Dialer.KeepAlive, Interval: c.Dialer.KeepAlive}
	c.Dialer.KeepAlive = -1
	c.BlockingPoolCleanup = 10 * time.Second
	c.RingScaleEachConn = bulkRing
	return c
}
