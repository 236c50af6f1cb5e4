package client

import (
	"context"
	"net/http"

	"github.com/tidemark-dev/tidemark/internal/wire"
)

// Reloaded is the result of a reload.
type Reloaded = wire.Reloaded

// OptionChange is a change of an option of the service.
type OptionChange = wire.OptionChange

// Reload makes the service that answers read its configuration again. It is answered on the service's admin address
// only. Other servers on the same Redis reload theirs by themselves. If an answer was lost it is tried again, and the
// second reload has nothing to change. Errors: ErrConfiguration, whose detail has all
// faults; then nothing was changed.
func (c *Client) Reload(ctx context.Context) (Reloaded, error) {
	var done Reloaded
	_, err := c.call(ctx, request{what: "reload the configuration", method: http.MethodPost, path: []string{"reload"}},
		&done)
	return done, err
}
