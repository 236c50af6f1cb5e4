package records

import (
	"context"
	"net/http"

	clientrecords "github.com/tidemark-dev/tidemark/client/records"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/records/followers"
)

// Followers reads the channels that users follow.
type Followers interface {
	Following(ctx context.Context, user string) (followers.Following, error)
}

func addFollowers(a web.API, service Followers) {
	const path = "/v1/users/:user/channels"
	a.AddGet(web.Route{Path: path, Action: access.Read, Of: of("channels-of", 1),
		Handle: (&followerCalls{service}).list})
}

type followerCalls struct{ service Followers }

// list is GET /v1/users/{user}/channels.
func (h *followerCalls) list(c *web.Call) error {
	found, err := h.service.Following(c.Context(), c.Param(0))
	if err != nil {
		return err
	}
	return c.Value(http.StatusOK, clientrecords.Following(found))
}
