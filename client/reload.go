package client

import (
	"context"
	"net/http"
)

// Reloaded is the result of a reload.
type Reloaded struct {
	Changes []OptionChange `json:"changes"` // that are in effect now
	Restart []string       `json:"restart"` // options with other values that take effect after a restart
}

// OptionChange is a change of an option of the service.
type OptionChange struct {
	Option string `json:"option"`         // YAML key, or the path of a part of it
	From   string `json:"from,omitempty"` // left out: it was not set
	To     string `json:"to,omitempty"`   // left out: it is not set any more
}

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
