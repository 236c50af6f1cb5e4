package web

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/patterns"
)

var errCrossOrigin = &fault.Error{
	Kind: fault.Forbidden, Slug: fault.SlugCrossOrigin,
	Detail: "a web page of another origin sent this request; if it should, add its origin to --cors-origins",
}

// errHost returns the error of a request under a name that the service doesn't have.
func errHost(name string) error {
	e := &fault.Error{Kind: fault.Misdirected, Slug: fault.SlugUnknownHost,
		Detail: "this service doesn't answer under this name, but under those of --allow-hosts, IP addresses and localhost"}
	if isHostName(name) {
		e.Detail = fmt.Sprintf("this service doesn't answer under the name %s; if it should, add it: --allow-hosts %s, "+
			"TIDEMARK_ALLOW_HOSTS=%s, or allowHosts in its configuration; IP addresses and localhost are always served",
			name, name, name)
	}
	return e
}

// isHostName reports whether a name has only the characters of host names, so that it can be shown.
func isHostName(name string) bool {
	return name != "" && len(name) <= 253 && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && !strings.ContainsRune("-._", r)
	})
}

// origins decides which web pages may use a listener from a browser, and under which host names.
type origins struct {
	cors        CORS
	hosts       []string // as Options.AllowHosts
	open        bool     // the service needs no credentials
	own         bool     // pages of other origins may not even send requests that only read
	crossOrigin http.CrossOriginProtection
}

// check refuses requests that a browser sends for a web page which may not use the API: a page of another origin, and
// one whose host name was made to resolve to this service (DNS rebinding). Clients that aren't browsers send neither
// Origin nor Sec-Fetch-Site. A browser lets every page open a WebSocket, and read what it receives. No page can connect
// to a Unix socket, whose clients are the administrator.
func (o *origins) check(r *http.Request, of *Route, isUnix bool) error {
	loopback, _ := r.Context().Value(onLoopback{}).(bool)
	if !isUnix {
		if err := o.checkHost(r.Host, loopback); err != nil {
			return err
		}
	}
	if of.Linked && isNavigation(r) {
		return nil
	}
	if o.cors.allows(r.Header.Get("Origin")) {
		return nil
	}
	if o.own && !isUnix && !of.Linked && lacksOrigin(r) {
		return errCrossOrigin
	}
	method := r.Method
	if o.own || of.Socket {
		method = http.MethodPost // Check lets every GET pass
	}
	host := hostFor(r.Host, r.Header.Get("Origin"))
	if o.crossOrigin.Check(&http.Request{Method: method, Header: r.Header, Host: host, URL: r.URL}) != nil {
		return errCrossOrigin
	}
	return nil
}

// hostFor returns a Host header as a browser writes it in the URL of a page: without the port of the page's scheme.
func hostFor(host, page string) string {
	switch {
	case strings.HasPrefix(page, "https://"):
		return strings.TrimSuffix(host, ":443")
	case strings.HasPrefix(page, "http://"):
		return strings.TrimSuffix(host, ":80")
	}
	return host
}

// lacksOrigin reports whether a request is a browser's and doesn't show for which page it is sent. Without TLS browsers send
// Sec-Fetch-Site to loopback addresses only, and Origin with no GET that another page can make them send. Pages of the
// service's own origin, as those of the console, are named in the Referer, or show a credential, which other pages
// can't.
func lacksOrigin(r *http.Request) bool {
	h := r.Header
	if h.Get("Origin") != "" || h.Get("Sec-Fetch-Site") != "" || h.Get(authorizationHeader) != "" ||
		!strings.HasPrefix(h.Get("User-Agent"), "Mozilla/") {
		return false
	}
	page, err := url.Parse(h.Get("Referer"))
	return err != nil || page.Host != hostFor(r.Host, h.Get("Referer"))
}

// isNavigation reports whether a browser asks for a page to show it in a tab, by a link or an address that was typed.
func isNavigation(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) &&
		r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}

// checkHost returns an error unless the service has the name in a Host header. Any name may be made to resolve to a
// service that needs no credentials, or that listens on a loopback address. No page can make an IP address or localhost
// resolve to another service, so these are always served.
func (o *origins) checkHost(host string, loopback bool) error {
	if len(o.hosts) == 0 && !loopback && !o.open {
		return nil
	}
	if strings.Contains(host, ":") { // without a port there would only be an error
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
	}
	if inner, open := strings.CutPrefix(host, "["); open && strings.HasSuffix(inner, "]") {
		host = strings.TrimSuffix(inner, "]")
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return nil
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return nil
	}
	if slices.ContainsFunc(o.hosts, func(pattern string) bool { return patterns.MatchesHost(pattern, host) }) {
		return nil
	}
	return errHost(host)
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

// isAnyHost reports whether a pattern of origins matches every host.
func isAnyHost(pattern string) bool {
	_, host, found := strings.Cut(pattern, "://")
	host, _, _ = strings.Cut(host, ":")
	return !found || strings.Trim(host, "*.") == ""
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
		// Pages that are traced send the last three with each request.
		AllowHeaders: append([]string{authorizationHeader, headerContentType, headerRequestID, "Traceparent", "Tracestate",
			"Baggage"}, c.RequestHeaders...),
		ExposeHeaders: append([]string{headerRequestID, headerRetryAfter, headerLocation, headerChallenge,
			headerRateLimit, headerRateLimitPolicy}, c.ResponseHeaders...),
		// Some libraries always send credentials; the API reads no cookies.
		AllowCredentials: !slices.ContainsFunc(c.AllowOrigins, isAnyHost),
		MaxAge:           int(c.MaxAge / time.Second),
		// AllowMethods is left out: the answer to a preflight request has the methods of the path.
	}), true
}
