// Package shards has the options of the sharded read tier: those of a node, and those of a service that reads through
// nodes.

package config

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/internal/certs"
	"github.com/tidemark-dev/tidemark/internal/suggest"
	"github.com/tidemark-dev/tidemark/records"
	"github.com/tidemark-dev/tidemark/records/tier"
	"github.com/tidemark-dev/tidemark/shard"
	hostlist "github.com/tidemark-dev/tidemark/shard/hosts"
)

// ShardOptions configures the tier.
type ShardOptions struct {
	DC         string // data centre that this process is in; "" for a service that prefers none
	PingPeriod time.Duration
	TokenFile  string // read into Token
	Token      string // that clients send to nodes; "": none
	Node       ShardNode
	Reads      ShardReads
}

// ShardNode configures a node.
type ShardNode struct {
	Cache       string
	Host        string // unique in the data centre, the same after a restart; "": the machine's name and the port
	Listen      string // host:port
	Advertise   string // host:port at which clients reach it; "": where it listens
	AdminListen string // host:port, or unix: and a path; "": there is no admin listener
	LeaseTTL    time.Duration
	KeepServing bool          // without Redis, too
	Reload      time.Duration // between two times that everything is loaded
	LoadRate    int           // keys of Redis that it looks at in a second while it loads
	Memory      int           // bytes of all values and their IDs; 0: no limit

	MaxConnections int
	Insecure       bool // everybody may ask it, also on addresses that aren't loopback ones
}

// ShardReads says what a service reads through nodes.
type ShardReads struct {
	Caches   []string      // kinds of values of the cache; none: it reads none through nodes
	Timeout  time.Duration // how long nodes may take until Redis is asked
	Hosts    []string      // where nodes are: "redis" alone, or a=host:port and a=dns:name:port for data centre a
	CAFile   string        // with the authorities of the nodes' certificates; turns TLS on
	CertFile string        // that it shows to nodes; turns TLS on
	KeyFile  string
	Name     string // of all nodes, in their certificates; "": the host of each address
}

// TLSConfig returns how nodes are connected to, or nil if that is without TLS.
func (r ShardReads) TLSConfig() (*tls.Config, error) {
	if r.CAFile == "" && r.CertFile == "" {
		return nil, nil
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: r.Name}
	var err error
	if r.CAFile != "" {
		if t.RootCAs, err = certs.ReadAuthorities(r.CAFile); err != nil {
			return nil, fmt.Errorf("shardCaFile: %w", err)
		}
	}
	if r.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(r.CertFile, r.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("shardCertFile: %w", err)
		}
		t.Certificates = []tls.Certificate{pair}
	}
	return t, nil
}

// HostsOfRedis is the value of Reads.Hosts for the nodes that Redis knows of.
const HostsOfRedis = "redis"

// Bounds of durations.
const (
	MinPingPeriod = 20 * time.Millisecond
	MaxPingPeriod = 10 * time.Minute
	MinReload     = time.Second
)

// Margin is how long before its lease ends a node stops answering.
func (n ShardNode) Margin() time.Duration { return n.LeaseTTL / 10 }

// CompleteNode checks the options of a node against each other, and reads the token. Its errors name the YAML key,
// since the options can come from different sources.
func (o *ShardOptions) CompleteNode() error {
	n := o.Node
	switch {
	case n.Cache == "":
		return errors.New("shardCache: isn't set: name the cache to serve, such as author")
	case o.DC == "":
		return errors.New("shardDc: isn't set: name the data centre that the node is in")
	case o.PingPeriod > (n.LeaseTTL-n.Margin())/2:
		return fmt.Errorf(
			"shardLeaseTtl: %s is too short for a shardPingPeriod of %s: two of these must fit into nine tenths of it",
			n.LeaseTTL, o.PingPeriod)
	case n.Advertise == "" && unspecified(n.Listen):
		return fmt.Errorf(
			"shardAdvertise: isn't set, but shardListen is %q, which is every address of the machine: set the one at which clients reach the node",
			n.Listen)
	}
	if err := o.readToken(); err != nil {
		return err
	}
	if n.Insecure && o.Token != "" {
		return errors.New("shardInsecure: is on, but shardTokenFile is set: leave one of them out")
	}
	return nil
}

// CompleteReads checks the options of a service that reads through nodes, and reads the token.
func (o *ShardOptions) CompleteReads() error {
	r := o.Reads
	switch {
	case (r.CertFile == "") != (r.KeyFile == ""):
		return errors.New("shardCertFile: shardCertFile and shardKeyFile must be set together")
	case len(r.Caches) == 0:
		return nil
	}
	if _, err := r.TLSConfig(); err != nil {
		return err
	}
	return o.readToken()
}

// Sizes of a token, in bytes.
const (
	minToken = 16
	maxToken = 4096
)

// readToken reads the token. Its errors don't contain it.
func (o *ShardOptions) readToken() error {
	if o.TokenFile == "" {
		return nil
	}
	file, err := os.Open(o.TokenFile)
	if err != nil {
		return fmt.Errorf("shardTokenFile: %w", err)
	}
	defer file.Close()                                           //nolint:errcheck // it was only read
	content, err := io.ReadAll(io.LimitReader(file, maxToken+3)) // a line end isn't part of it
	if err != nil {
		return fmt.Errorf("shardTokenFile: %w", err)
	}
	token := strings.TrimRight(string(content), "\r\n")
	switch {
	case len(token) < minToken || len(token) > maxToken:
		return fmt.Errorf(
			"shardTokenFile: %s must contain a token of %d to %d bytes: make one with `openssl rand -base64 32`",
			o.TokenFile, minToken, maxToken)
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		return fmt.Errorf("shardTokenFile: %s must contain one line of visible ASCII characters", o.TokenFile)
	}
	o.Token = token
	return nil
}

// ParseCache parses the name of a cache, which is that of a kind of its values.
func ParseCache(text string) (string, error) {
	if _, err := tier.Find(text); err != nil {
		return "", fmt.Errorf("%.64q: %w%s", text, err, suggest.Hint(suggest.Near(text, caches())))
	}
	return text, nil
}

// caches returns the names of all kinds that nodes can have.
func caches() (names []string) {
	for _, kind := range records.Kinds {
		if tier.Allowed(kind) {
			names = append(names, kind.Name)
		}
	}
	return names
}

// ParseName returns what parses a name of something.
func ParseName(what string) func(string) (string, error) {
	return func(text string) (string, error) { return text, shard.CheckName(what, text) }
}

var hostName = regexp.MustCompile(`^[0-9A-Za-z_.-]{1,253}$`)

// ParseAdvertise parses an address that others can connect to.
func ParseAdvertise(text string) (string, error) {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return "", fmt.Errorf("%q isn't host:port, such as 10.0.0.7:7100", text)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", fmt.Errorf("%q isn't a port from 1 to 65535", port)
	}
	if _, err := netip.ParseAddr(host); err != nil && !hostName.MatchString(host) || unspecified(text) {
		return "", fmt.Errorf("%q has no host that others can connect to", text)
	}
	return text, nil
}

// unspecified reports whether an address to listen on stands for all addresses of the machine.
func unspecified(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil || host == "" {
		return true
	}
	at, err := netip.ParseAddr(host)
	return err == nil && at.IsUnspecified()
}

// ParseHosts parses a list of hosts: redis alone, or what hosts.Parse parses.
func ParseHosts(text string) ([]string, error) {
	hosts, err := namedValue(listOf(anyText))(text)
	if err == nil && !slices.Equal(hosts, []string{HostsOfRedis}) {
		_, err = hostlist.Parse(hosts, nil)
	}
	return hosts, err
}

// ParseTTL parses the TTL of a lease.
var ParseTTL = durationBetween(50*time.Millisecond, time.Hour)
