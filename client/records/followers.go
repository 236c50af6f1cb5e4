package records

import (
	"context"
	"net/http"

	"github.com/tidemark-dev/tidemark/client"
)

// Following is the channels of notifications that a user follows.
type Following struct {
	Channels []string `json:"channels"`          // sorted, at most 256
	More     bool     `json:"more"`              // there are more
	Unknown  []string `json:"unknown,omitempty"` // kinds of the user's follow lists that the cache doesn't have
}

// Following returns the channels of notifications that a user follows, at most as many as one fetch of many channels
// takes. Errors: ErrInvalidID for a user who can't have a channel.
func (c *Client) Following(ctx context.Context, user string) (found Following, err error) {
	call := client.Call{What: "get the channels that " + user + " follows", Method: http.MethodGet,
		Path: []string{"users", user, "channels"}}
	_, err = c.service.Do(ctx, call, &found)
	return found, err
}
