package web

import (
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/labstack/echo/v4"
)

// forwardedFor is the header to which each proxy appends the address of its client.
const forwardedFor = echo.HeaderXForwardedFor

// proxies are the proxies that are trusted to report a client's address. A nil *proxies trusts none.
type proxies struct{ extract echo.IPExtractor }

// trust returns the proxies that have addresses in networks, or nil if there are none.
func trust(networks []netip.Prefix) *proxies {
	if len(networks) == 0 {
		return nil
	}
	options := []echo.TrustOption{echo.TrustLoopback(false), echo.TrustLinkLocal(false), echo.TrustPrivateNet(false)}
	for _, n := range networks {
		n = n.Masked()
		options = append(options, echo.TrustIPRange(&net.IPNet{
			IP: n.Addr().AsSlice(), Mask: net.CIDRMask(n.Bits(), n.Addr().BitLen()),
		}))
	}
	return &proxies{extract: echo.ExtractIPFromXFFHeader(options...)}
}

// withoutPorts removes the ports that some proxies add to the addresses of a header.
func withoutPorts(forwarded []string) []string {
	addresses := strings.Split(strings.Join(forwarded, ","), ",")
	for i, a := range addresses {
		if addrPort, err := netip.ParseAddrPort(strings.TrimSpace(a)); err == nil {
			addresses[i] = addrPort.Addr().String()
		}
	}
	return []string{strings.Join(addresses, ",")}
}

// client returns the address of a request's client. remote is the address of the connection, which may have a port. If
// remote is a trusted proxy, the client is the last address in the headers that isn't a trusted proxy's, and otherwise
// remote itself.
func (p *proxies) client(remote string, forwarded []string) string {
	if p == nil || len(forwarded) == 0 {
		return remote
	}
	client := p.extract(&http.Request{RemoteAddr: remote, Header: http.Header{forwardedFor: withoutPorts(forwarded)}})
	if host, _, err := net.SplitHostPort(remote); client == "" || err == nil && client == host {
		return remote
	}
	return client
}
