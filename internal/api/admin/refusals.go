package admin

import (
	"net/http"
	"time"

	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/access/limits"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

// addRefusals adds GET /v1/access: whom the server has refused recently. limiter may be nil.
func addRefusals(r *web.Router, limiter *limits.Limiter) {
	web.API{Router: r, Fail: web.Fail}.AddGet(web.Route{Path: "/v1/access", Action: access.Admin, Admin: true,
		Handle: func(c *web.Call) error {
			answer := wire.RecentAccess{Limited: []wire.LimitedClient{}, Refused: []wire.RefusedClient{}}
			if limiter != nil {
				for _, l := range limiter.Limited(time.Now()) {
					answer.Limited = append(answer.Limited, wire.LimitedClient{Client: l.Who, Of: l.Of, Limit: l.Limit,
						Value: l.Value, Refusals: wire.Repeated{Since: l.Since.UTC(), Last: l.Last.UTC(), Count: l.Count}})
				}
			}
			for _, f := range r.Refusals() {
				answer.Refused = append(answer.Refused, wire.RefusedClient{Client: f.Client, Principal: f.Principal,
					Problem: string(f.Slug), Reason: f.Reason, Method: f.Method, Path: f.Path,
					Refusals: wire.Repeated{Since: f.Since.UTC(), Last: f.Last.UTC(), Count: f.Count}})
			}
			return c.Value(http.StatusOK, answer)
		}})
}
