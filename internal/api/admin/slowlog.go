package admin

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/api/web"
)

// SlowLogs reads the latest calls in the slow log of each primary, up to limit for each.
type SlowLogs func(ctx context.Context, limit int) client.SlowLogs

const (
	defaultSlowCalls = 20
	maxSlowCalls     = 100 // a slow log has 128 unless its Redis is configured otherwise
)

func addSlowLogs(r *web.Router, of SlowLogs) {
	web.API{Router: r, Fail: web.Fail}.AddGet(web.Route{Path: "/v1/slowlog", Query: web.QueryRead, Action: access.Admin,
		Admin: true, Handle: of.show})
}

// show is GET /v1/slowlog.
func (s SlowLogs) show(c *web.Call) error {
	limit := defaultSlowCalls
	err := web.ReadQuery(c.Request().URL.RawQuery, []string{"limit"}, func(name, value string) (err error) {
		if limit, err = strconv.Atoi(value); err != nil || limit < 1 || limit > maxSlowCalls {
			return web.RefuseParameter(name, fmt.Sprintf("limit is %.64q, it must be from 1 to %d", value, maxSlowCalls))
		}
		return nil
	})
	if err != nil {
		return err
	}
	return c.Value(http.StatusOK, s(c.Context(), limit))
}
