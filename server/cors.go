package server

import (
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
		AllowHeaders:  []string{"Content-Type", headerRequestID},
		ExposeHeaders: []string{headerRequestID, headerRetryAfter},
		MaxAge:        int(c.MaxAge / time.Second),
		// AllowMethods is left out: a preflight is told the methods that the path has.
	}), true
}
