package jsonhttp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"code.dny.dev/ssrf"

	"github.com/tidemark-dev/tidemark/internal/patterns"
)

// Targets are the services that queues created at run time may call. The creator of a queue chooses its URLs, so they
// are checked twice: the URL when the queue is created, and the address at each dial, since a name can resolve to
// another address by then. A nil *Targets allows everything, for queues of the configuration, which the operator
// controls.
type Targets struct {
	hosts    []hostPort
	prefixes []netip.Prefix // networks and single addresses, on any port
	urls     []*url.URL
	ports    map[netip.AddrPort]bool // the addresses among hosts and urls that are dialed on one port only
	guard    *ssrf.Guardian
}

// hostPort is a name or an address in lower case; a name that begins with "*." stands for all names that end with the
// rest. An empty port means any.
type hostPort struct{ host, port string }

func (h hostPort) matches(host, port string) bool {
	if h.port != "" && h.port != port {
		return false
	}
	return patterns.MatchesHost(h.host, host)
}

// ParseTargets parses patterns: a host or an address, with or without a port ("fn.example.com", "*.example.com",
// "10.0.0.7:9000", "[fd00::7]:9000"), a network ("10.0.0.0/8"), or the start of a URL ("https://fn.example.com/match").
// Without patterns nothing is allowed. A name that no pattern has is allowed if it resolves to an address that a
// pattern has. Addresses that are not public (loopback, private, link-local and so on) are dialed only if a pattern
// that is an address or a network contains them, with the port if the pattern has one; a pattern with a name does not
// allow them.
func ParseTargets(patterns []string) (*Targets, error) {
	t := &Targets{ports: map[netip.AddrPort]bool{}}
	for _, pattern := range patterns {
		if err := t.add(pattern); err != nil {
			return nil, err
		}
	}
	options := []ssrf.Option{ssrf.WithAnyPort()}
	var four, six []netip.Prefix
	t.prefixes = append(t.prefixes, t.addresses()...)
	for _, prefix := range t.prefixes {
		if prefix.Addr().Is4() {
			four = append(four, prefix)
		} else {
			six = append(six, prefix)
		}
	}
	t.guard = ssrf.New(append(options, ssrf.WithAllowedV4Prefixes(four...), ssrf.WithAllowedV6Prefixes(six...))...)
	return t, nil
}

func (t *Targets) add(pattern string) error {
	if strings.Contains(pattern, "://") {
		u, err := parseURL(pattern)
		if err != nil || u.User != nil || u.RawQuery != "" {
			return fmt.Errorf("%q is not the start of an http:// or https:// URL", pattern)
		}
		if strings.Contains(u.Hostname(), "*") {
			return fmt.Errorf("%q is the start of a URL, which has no star: for all hosts below a name write *.example.com",
				pattern)
		}
		t.urls = append(t.urls, u)
		return t.addPort(hostOf(u), portOf(u))
	}
	if prefix, err := netip.ParsePrefix(pattern); err == nil {
		t.prefixes = append(t.prefixes, prefix.Masked())
		return nil
	}
	u, err := url.Parse("http://" + pattern)
	if _, bare := netip.ParseAddr(pattern); bare == nil && strings.Contains(pattern, ":") { // IPv6 without brackets
		u, err = url.Parse("http://[" + pattern + "]")
	}
	switch {
	case strings.HasPrefix(pattern, "."):
		return fmt.Errorf("%q begins with a dot: *%s stands for all names that end with it", pattern, pattern)
	case err != nil, u.Hostname() == "", u.Path != "", u.User != nil,
		strings.Contains(strings.TrimPrefix(hostOf(u), "*."), "*"):
		return fmt.Errorf("%q is not a host such as fn.example.com or *.example.com, a network or the start of a URL",
			pattern)
	}
	t.hosts = append(t.hosts, hostPort{host: hostOf(u), port: u.Port()})
	if u.Port() == "" {
		return nil
	}
	return t.addPort(hostOf(u), u.Port())
}

// addPort allows a port of a host to be dialed, if the host is an address.
func (t *Targets) addPort(host, port string) error {
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return fmt.Errorf("%q is not a port", port)
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		t.ports[netip.AddrPortFrom(addr, uint16(n))] = true
	}
	return nil
}

// addresses returns the single addresses among the hosts that are dialed on any port.
func (t *Targets) addresses() (all []netip.Prefix) {
	for _, h := range t.hosts {
		if addr, err := netip.ParseAddr(h.host); err == nil && h.port == "" {
			all = append(all, netip.PrefixFrom(addr, addr.BitLen()))
		}
	}
	return all
}

// hostOf returns a URL's host, normalized for comparison.
func hostOf(u *url.URL) string {
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.Unmap().String()
	}
	return host
}

// portOf returns a URL's port, or the default port of its scheme.
func portOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}

// Check returns an error unless text is the URL of a service that may be called: http or https, with a host and without
// a fragment. It does not resolve the host.
func (t *Targets) Check(target string) error {
	u, err := parseURL(target)
	switch {
	case err != nil || t == nil:
		return err
	case u.User != nil:
		return errors.New("only a queue of the configuration may have a URL with credentials")
	case !t.allows(u):
		return fmt.Errorf(
			"%s is not allowed for a queue created at run time: see the option callout-allow of the service",
			net.JoinHostPort(hostOf(u), portOf(u)))
	}
	return nil
}

func (t *Targets) allows(u *url.URL) bool {
	host, port := hostOf(u), portOf(u)
	if t.lists(host, port) {
		return true
	}
	addr, err := netip.ParseAddr(host)
	if err != nil && len(t.prefixes)+len(t.ports) > 0 {
		return true // if it resolves to one of these: DialContext decides
	}
	if err == nil && t.contains(addr) {
		return true
	}
	for _, base := range t.urls {
		if base.Scheme == u.Scheme && hostOf(base) == host && portOf(base) == port && below(base.Path, u.Path) {
			return true
		}
	}
	return false
}

// lists reports whether a pattern of hosts has a name or an address.
func (t *Targets) lists(host, port string) bool {
	return slices.ContainsFunc(t.hosts, func(h hostPort) bool { return h.matches(host, port) })
}

// contains reports whether a pattern has an address on all ports.
func (t *Targets) contains(addr netip.Addr) bool {
	return slices.ContainsFunc(t.prefixes, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// below reports whether target equals base or is below it.
func below(base, target string) bool {
	base = strings.TrimSuffix(path.Clean("/"+base), "/")
	target = path.Clean("/" + target)
	return target == base || strings.HasPrefix(target, base+"/")
}

// DialContext connects to a host and port of a URL that Check allows, if its address is allowed, too. Targets must not
// be nil.
func (t *Targets) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: DialTimeout, Control: t.control}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	named := t.lists(host, port) || slices.ContainsFunc(t.urls, func(u *url.URL) bool {
		return hostOf(u) == host && portOf(u) == port
	})
	if !named {
		d.Control = t.controlListed
	}
	return d.DialContext(ctx, network, address)
}

// Restrict makes a transport dial only allowed addresses, and without a proxy, since a proxy would resolve names
// itself.
func (t *Targets) Restrict(transport *http.Transport) {
	if t == nil {
		return
	}
	transport.Proxy, transport.DialContext = nil, t.DialContext
}

// DialTimeout limits the opening of a connection.
const DialTimeout = 10 * time.Second

// control refuses addresses that are not public, unless a pattern has them.
func (t *Targets) control(network, address string, c syscall.RawConn) error {
	if t.listsAddress(address) {
		return nil
	}
	if err := t.guard.Safe(network, address, c); err != nil {
		return fmt.Errorf("%s is not allowed for a queue created at run time (option callout-allow): %w", address, err)
	}
	return nil
}

// controlListed refuses addresses that no pattern has.
func (t *Targets) controlListed(_, address string, _ syscall.RawConn) error {
	if t.listsAddress(address) {
		return nil
	}
	return fmt.Errorf("%s is not allowed for a queue created at run time: the option callout-allow has neither the name "+
		"nor this address", address)
}

// listsAddress reports whether a pattern has an address and port.
func (t *Targets) listsAddress(address string) bool {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return false
	}
	at = netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	return t.ports[at] || t.contains(at.Addr())
}
