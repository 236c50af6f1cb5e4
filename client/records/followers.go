package records

import (
	"context"
	"net/http"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

// Following is the channels of notifications that a user follows.
type Following = wire.Following

// Following returns the channels of notifications that a user follows, at most as many as one fetch of many channels
// takes. Errors: ErrInvalidID for a user who can't have a channel.
func (c *Client) Following(ctx context.Context, user string) (found Following, err error) {
	call := client.Call{What: "get the channels that " + user + " follows", Method: http.MethodGet,
		Path: []string{"users", user, "channels"}}
	_, err = c.service.Do(ctx, call, &found)
	return found, err
}
