package web

import (
	"net"
	"net/http"
	"net/netip"

	"github.com/labstack/echo/v4"
)

// header is the header in which each proxy names the address that a request came from, behind those of earlier ones.
const header = echo.HeaderXForwardedFor

// Proxies are the proxies that are trusted to say where a request came from. A nil *Proxies trusts nobody.
type Proxies struct{ extract echo.IPExtractor }

// TrustProxies returns the proxies that have addresses in networks, or nil if there are none.
func TrustProxies(networks []netip.Prefix) *Proxies {
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
	return &Proxies{extract: echo.ExtractIPFromXFFHeader(options...)}
}

// Client returns the address of the client that a request is from, which came from the address remote: the last one in
// the headers that no trusted proxy has, or remote, which may have a port, if that is no trusted proxy's.
func (p *Proxies) Client(remote string, forwarded []string) string {
	if p == nil || len(forwarded) == 0 {
		return remote
	}
	client := p.extract(&http.Request{RemoteAddr: remote, Header: http.Header{header: forwarded}})
	if host, _, err := net.SplitHostPort(remote); client == "" || err == nil && client == host {
		return remote
	}
	return client
}
