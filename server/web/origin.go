package web

import (
	"net"
	"net/http"
	"net/netip"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

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

// origins decides which web pages may use a listener from a browser, and under which host names.
type origins struct {
	cors        CORS
	hosts       []string // as Options.AllowHosts
	own         bool     // pages of other origins may not even send requests that only read
	loopback    atomic.Bool
	crossOrigin http.CrossOriginProtection
}

// check refuses requests that a browser sends for a web page which may not use the API: a page of another origin, and
// one whose host name was made to resolve to this service (DNS rebinding). Clients that aren't browsers send neither
// Origin nor Sec-Fetch-Site. A browser lets every page open a WebSocket, and read what it receives.
func (o *origins) check(r *http.Request, of *Route) error {
	loopback, other := r.Context().Value(onLoopback{}).(bool)
	if !other {
		loopback = o.loopback.Load()
	}
	if !o.servesHost(r.Host, loopback) {
		return errHost
	}
	if of.Linked && isNavigation(r) {
		return nil
	}
	if o.cors.allows(r.Header.Get("Origin")) {
		return nil
	}
	if o.own || of.Socket {
		r = &http.Request{Method: http.MethodPost, Header: r.Header, Host: r.Host} // Check lets every GET pass
	}
	if o.crossOrigin.Check(r) != nil {
		return errCrossOrigin
	}
	return nil
}

// isNavigation reports whether a browser asks for a page to show it in a tab, by a link or an address that was typed.
func isNavigation(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) &&
		r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}

// servesHost reports whether the service has the name in a Host header. No page can make an IP address or localhost
// resolve to another service, so these are always served.
func (o *origins) servesHost(host string, loopback bool) bool {
	if len(o.hosts) == 0 && !loopback {
		return true
	}
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if _, err := netip.ParseAddr(host); err == nil || host == "" || host == "localhost" ||
		strings.HasSuffix(host, ".localhost") {
		return true
	}
	for _, pattern := range o.hosts {
		if matched, err := path.Match(pattern, host); err == nil && matched {
			return true
		}
	}
	return false
}

// DefaultCORSMaxAge is how long a browser may cache the answer to a preflight request by default.
const DefaultCORSMaxAge = time.Hour

// CORS lists the origins whose web pages may use the API from a browser.
type CORS struct {
	// such as "https://app.example.com", "https://*.example.com" or "*"; none: no CORS headers
	AllowOrigins []string
	MaxAge       time.Duration // how long a browser may cache the answer to a preflight request; 0: DefaultCORSMaxAge

	// RequestHeaders and ResponseHeaders are headers that pages may send and read in addition to those of this package.
	RequestHeaders, ResponseHeaders []string
}

// allows reports whether pages of an origin may use the API.
func (c CORS) allows(origin string) bool {
	return origin != "" && slices.ContainsFunc(c.AllowOrigins, func(pattern string) bool {
		matched, err := path.Match(pattern, origin)
		return pattern == "*" || pattern == origin || (err == nil && matched)
	})
}

// middleware returns the middleware. ok is false if none is needed.
func (c CORS) middleware() (m echo.MiddlewareFunc, ok bool) {
	if len(c.AllowOrigins) == 0 {
		return nil, false
	}
	if c.MaxAge == 0 {
		c.MaxAge = DefaultCORSMaxAge
	}
	return middleware.CORSWithConfig(middleware.CORSConfig{
		AllowOrigins: c.AllowOrigins,
		AllowHeaders: append([]string{authorizationHeader, headerContentType, headerRequestID}, c.RequestHeaders...),
		ExposeHeaders: append([]string{headerRequestID, headerRetryAfter, headerLocation, headerChallenge,
			headerRateLimit, headerRateLimitPolicy}, c.ResponseHeaders...),
		MaxAge: int(c.MaxAge / time.Second),
		// AllowMethods is left out: the answer to a preflight request has the methods of the path.
	}), true
}
