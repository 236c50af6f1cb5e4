package server

import (
	"path"
	"slices"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
)

// DefaultCORSMaxAge is how long a browser may keep the answer to a preflight where none is configured.
const DefaultCORSMaxAge = time.Hour

// CORS says which web pages of other origins may use the API from a browser.
type CORS struct {
	AllowOrigins []string      // such as "https://app.example.com", "https://*.example.com" or "*"; none: no CORS headers
	MaxAge       time.Duration // how long a browser may keep the answer to a preflight; 0: DefaultCORSMaxAge
}

// allows reports whether pages of an origin may use the API.
func (c CORS) allows(origin string) bool {
	return origin != "" && slices.ContainsFunc(c.AllowOrigins, func(pattern string) bool {
		matched, err := path.Match(pattern, origin)
		return pattern == "*" || pattern == origin || (err == nil && matched)
	})
}

// What gRPC-Web and Connect clients in a page send, and must be able to read.
var (
	rpcRequestHeaders = []string{
		"Connect-Protocol-Version", "Connect-Timeout-Ms", "Grpc-Timeout", "X-Grpc-Web", "X-User-Agent", metadataQueue, metadataTicketID,
	}
	rpcResponseHeaders = []string{"Grpc-Status", "Grpc-Message", "Grpc-Status-Details-Bin"}
)

// middleware gives the middleware, if there is to be one.
func (c CORS) middleware() (echo.MiddlewareFunc, bool) {
	if len(c.AllowOrigins) == 0 {
		return nil, false
	}
	if c.MaxAge == 0 {
		c.MaxAge = DefaultCORSMaxAge
	}
	return middleware.CORSWithConfig(middleware.CORSConfig{
		AllowOrigins:  c.AllowOrigins,
		AllowHeaders:  append([]string{"Content-Type", headerRequestID}, rpcRequestHeaders...),
		ExposeHeaders: append([]string{headerRequestID, headerRetryAfter, headerLocation}, rpcResponseHeaders...),
		MaxAge:        int(c.MaxAge / time.Second),
		// AllowMethods is left out: a preflight is told the methods that the path has.
	}), true
}
