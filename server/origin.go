package server

import (
	"net"
	"net/http"
	"net/netip"
	"path"
	"strings"

	"github.com/tidemark-dev/tidemark/fault"
)

var (
	errCrossOrigin = &fault.Error{
		Kind: fault.Forbidden, Slug: fault.SlugCrossOrigin,
		Detail: "a web page of another origin sent this request; the service is configured with the origins that may",
	}
	errHost = &fault.Error{
		Kind: fault.Misdirected, Slug: fault.SlugUnknownHost,
		Detail: "the service isn't called under this host name; it is configured with its names",
	}
)

// checkOrigin refuses requests that a browser sends for a web page which may not use the API: a page of another origin,
// and one whose host name was made to lead to this service (DNS rebinding). Clients that aren't browsers send neither
// Origin nor Sec-Fetch-Site.
func (s *Server) checkOrigin(r *http.Request) error {
	if !s.servesHost(r.Host) {
		return errHost
	}
	if s.options.CORS.allows(r.Header.Get("Origin")) {
		return nil
	}
	if s.crossOrigin.Check(r) != nil {
		return errCrossOrigin
	}
	return nil
}

// servesHost reports whether the service is called by a Host header. No page can have an IP address or localhost lead to
// another service, so these are served always.
func (s *Server) servesHost(host string) bool {
	if len(s.options.AllowHosts) == 0 && !s.loopback.Load() {
		return true
	}
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if _, err := netip.ParseAddr(host); err == nil || host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	for _, pattern := range s.options.AllowHosts {
		if matched, err := path.Match(pattern, host); err == nil && matched {
			return true
		}
	}
	return false
}
