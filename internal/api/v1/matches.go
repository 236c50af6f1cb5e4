package v1

import (
	"net/http"

	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

type matches struct{ service Queues }

// of returns the queue of a match, from the query or from its ID, before the match is read. Without either the call is
// refused.
func (h *matches) of(c *web.Call) access.Resource {
	queue, _ := queueQuery(c.Request().URL.RawQuery) // show refuses a malformed one
	if queue == "" {
		queue, _ = matchmaking.QueueOf(c.Param(0))
	}
	return access.Resource{Queue: queue}
}

// show is GET /v1/matches/{id}.
func (h *matches) show(c *web.Call) error {
	queue, err := queueQuery(c.Request().URL.RawQuery)
	if err != nil {
		return err
	}
	m, err := h.service.Match(c.Context(), queue, c.Param(0))
	if err != nil {
		return err
	}
	return c.Value(http.StatusOK, m)
}
