package web

import (
	"net"
	"net/http"
	"net/netip"
	"path"
	"strings"
	"sync/atomic"

	"github.com/tidemark-dev/tidemark/fault"
)

var (
	errCrossOrigin = &fault.Error{
		Kind: fault.Forbidden, Slug: fault.SlugCrossOrigin,
		Detail: "a web page of another origin sent this request; origins that may do so are configured",
	}
	errHost = &fault.Error{
		Kind: fault.Misdirected, Slug: fault.SlugUnknownHost,
		Detail: "the service does not have this host name; its names are configured",
	}
)

// origins decides which web pages may use the API from a browser, and under which host names.
type origins struct {
	cors        CORS
	hosts       []string // as Options.AllowHosts
	loopback    atomic.Bool
	crossOrigin http.CrossOriginProtection
}

// check refuses requests that a browser sends for a web page which may not use the API: a page of another origin, and one
// whose host name was made to resolve to this service (DNS rebinding). Clients that aren't browsers send neither Origin
// nor Sec-Fetch-Site.
func (o *origins) check(r *http.Request) error {
	if !o.servesHost(r.Host) {
		return errHost
	}
	if o.cors.allows(r.Header.Get("Origin")) {
		return nil
	}
	if o.crossOrigin.Check(r) != nil {
		return errCrossOrigin
	}
	return nil
}

// servesHost reports whether the service has the name in a Host header. No page can make an IP address or localhost
// resolve to another service, so these are always served.
func (o *origins) servesHost(host string) bool {
	if len(o.hosts) == 0 && !o.loopback.Load() {
		return true
	}
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if _, err := netip.ParseAddr(host); err == nil || host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	for _, pattern := range o.hosts {
		if matched, err := path.Match(pattern, host); err == nil && matched {
			return true
		}
	}
	return false
}
