package web

import (
	"path"
	"slices"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
)

// DefaultCORSMaxAge is how long a browser may cache the answer to a preflight request by default.
const DefaultCORSMaxAge = time.Hour

// CORS says which web pages of other origins may use the API from a browser.
type CORS struct {
	AllowOrigins []string      // such as "https://app.example.com", "https://*.example.com" or "*"; none: no CORS headers
	MaxAge       time.Duration // how long a browser may cache the answer to a preflight request; 0: DefaultCORSMaxAge

	// RequestHeaders and ResponseHeaders are the headers that pages may send and read beside those of this package.
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
		AllowOrigins:  c.AllowOrigins,
		AllowHeaders:  append([]string{headerAuthorization, headerContentType, headerRequestID}, c.RequestHeaders...),
		ExposeHeaders: append([]string{headerRequestID, headerRetryAfter, headerLocation, headerChallenge, "RateLimit", "RateLimit-Policy"}, c.ResponseHeaders...),
		MaxAge:        int(c.MaxAge / time.Second),
		// AllowMethods is left out: the answer to a preflight request has the methods of the path.
	}), true
}
