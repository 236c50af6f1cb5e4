package jsonhttp

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"strings"
	"syscall"
	"time"

	"code.dny.dev/ssrf"
)

// Targets are the services that queues which are put at run time may call. Whoever may put a queue decides on its URLs,
// so they are checked twice: the URL when the queue is put, and the address at each dial, whatever the name resolves
// to by then. A nil *Targets allows everything: queues of the configuration are the operator's own.
type Targets struct {
	hosts    []hostPort
	prefixes []netip.Prefix
	urls     []*url.URL
	guard    *ssrf.Guardian
}

// hostPort is a name or an address, in lower case; a port of "" stands for all.
type hostPort struct{ host, port string }

// ParseTargets reads patterns: a host or an address, with a port or without ("fn.example.com", "10.0.0.7:9000",
// "[fd00::7]:9000"), a network ("10.0.0.0/8"), or the beginning of a URL ("https://fn.example.com/match"). Without
// patterns nothing is allowed. Addresses that aren't public (loopback, private, link-local and so on) are dialled only
// where an address or a network among the patterns has them; a name alone doesn't allow them.
func ParseTargets(patterns []string) (*Targets, error) {
	t := &Targets{}
	for _, pattern := range patterns {
		if err := t.add(pattern); err != nil {
			return nil, err
		}
	}
	options := []ssrf.Option{ssrf.WithAnyPort()}
	var four, six []netip.Prefix
	for _, prefix := range t.addresses() {
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
		u, err := url.Parse(pattern)
		if err != nil || CheckURL(pattern) != nil || u.User != nil || u.RawQuery != "" {
			return fmt.Errorf("%q isn't the beginning of a URL of http:// or https://", pattern)
		}
		t.urls = append(t.urls, u)
		return nil
	}
	if prefix, err := netip.ParsePrefix(pattern); err == nil {
		t.prefixes = append(t.prefixes, prefix.Masked())
		return nil
	}
	u, err := url.Parse("http://" + pattern)
	if _, bare := netip.ParseAddr(pattern); bare == nil && strings.Contains(pattern, ":") { // IPv6 without brackets
		u, err = url.Parse("http://[" + pattern + "]")
	}
	if err != nil || u.Hostname() == "" || u.Host == "" || u.Path != "" || u.User != nil || strings.Contains(u.Host, "*") {
		return fmt.Errorf("%q is no host, network or beginning of a URL", pattern)
	}
	t.hosts = append(t.hosts, hostPort{host: hostOf(u), port: u.Port()})
	return nil
}

// addresses are the networks and single addresses among the patterns.
func (t *Targets) addresses() []netip.Prefix {
	all := append([]netip.Prefix(nil), t.prefixes...)
	hosts := append([]hostPort(nil), t.hosts...)
	for _, u := range t.urls {
		hosts = append(hosts, hostPort{host: hostOf(u)})
	}
	for _, h := range hosts {
		if addr, err := netip.ParseAddr(h.host); err == nil {
			all = append(all, netip.PrefixFrom(addr, addr.BitLen()))
		}
	}
	return all
}

// hostOf returns a URL's host in the form in which hosts are compared.
func hostOf(u *url.URL) string {
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.Unmap().String()
	}
	return host
}

// portOf returns a URL's port, also where that is its scheme's.
func portOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}

// Check reports whether a URL may be called, as far as can be told without looking its host up.
func (t *Targets) Check(target string) error {
	if t == nil {
		return nil
	}
	u, err := url.Parse(target)
	switch {
	case err != nil:
		return errors.New("it can't be read as a URL")
	case u.User != nil:
		return errors.New("a URL with credentials in it can only be configured")
	case !t.allows(u):
		return fmt.Errorf("%s isn't allowed for a queue that is put at run time: the service's option callout-allow has the targets that are",
			net.JoinHostPort(hostOf(u), portOf(u)))
	}
	return nil
}

func (t *Targets) allows(u *url.URL) bool {
	host, port := hostOf(u), portOf(u)
	for _, h := range t.hosts {
		if h.host == host && (h.port == "" || h.port == port) {
			return true
		}
	}
	addr, err := netip.ParseAddr(host)
	for _, prefix := range t.prefixes {
		if err == nil && prefix.Contains(addr) {
			return true
		}
	}
	for _, base := range t.urls {
		if base.Scheme == u.Scheme && hostOf(base) == host && portOf(base) == port && below(base.Path, u.Path) {
			return true
		}
	}
	return false
}

// below reports whether a path is another one or below it.
func below(base, target string) bool {
	base = strings.TrimSuffix(path.Clean("/"+base), "/")
	target = path.Clean("/" + target)
	return target == base || strings.HasPrefix(target, base+"/")
}

// Restrict makes a transport dial only what is allowed, and nothing through a proxy, which would look names up itself.
func (t *Targets) Restrict(transport *http.Transport) {
	if t == nil {
		return
	}
	dialer := &net.Dialer{Timeout: dialTimeout, Control: t.control}
	transport.Proxy, transport.DialContext = nil, dialer.DialContext
}

const dialTimeout = 10 * time.Second

func (t *Targets) control(network, address string, c syscall.RawConn) error {
	if err := t.guard.Safe(network, address, c); err != nil {
		return fmt.Errorf("%s isn't allowed for a queue that was put at run time (option callout-allow): %w", address, err)
	}
	return nil
}
