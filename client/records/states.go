package records

import (
	"context"
	"net/http"
	"time"

	"github.com/tidemark-dev/tidemark/client"
)

// State is the state that a process has written for one of its runs.
type State struct {
	Fields    map[string]string `json:"fields"`
	ExpiresAt time.Time         `json:"expiresAt,omitzero"` // zero: no field is left
}

// StateChange is a change of a state.
type StateChange struct {
	Fields map[string]string // are set
	Remove []string          // names of fields
	TTL    time.Duration     // how long the state is kept from now on, 1 minute to 1 hour; 0: 1 hour
}

// stateChange is a StateChange in a request.
type stateChange struct {
	Fields map[string]string `json:"fields,omitempty"`
	Remove []string          `json:"remove,omitempty"`
	TTL    Duration          `json:"ttl,omitzero"`
}

func (s StateChange) body() stateChange {
	return stateChange{Fields: s.Fields, Remove: s.Remove, TTL: Duration(s.TTL)}
}

// PatchState changes fields of a state, or creates it, and returns it. A repeat changes only the time at which the
// state expires.
func (c *Client) PatchState(ctx context.Context, process, id string, change StateChange) (s State, err error) {
	return c.state(ctx, client.Call{What: "change a state", Method: http.MethodPatch, Path: statePath(process, id),
		Body: change.body()})
}

// PutState replaces a state, and returns it.
func (c *Client) PutState(ctx context.Context, process, id string, change StateChange) (State, error) {
	return c.state(ctx, client.Call{What: "replace a state", Method: http.MethodPut, Path: statePath(process, id),
		Body: change.body()})
}

// State returns a state. Errors: ErrNoState.
func (c *Client) State(ctx context.Context, process, id string) (State, error) {
	return c.state(ctx, client.Call{What: "get a state", Method: http.MethodGet, Path: statePath(process, id)})
}

// DeleteState deletes a state, if there is one.
func (c *Client) DeleteState(ctx context.Context, process, id string) error {
	_, err := c.service.Do(ctx, client.Call{What: "delete a state", Method: http.MethodDelete,
		Path: statePath(process, id)}, nil)
	return err
}

func statePath(process, id string) []string { return []string{"states", process, id} }

func (c *Client) state(ctx context.Context, call client.Call) (s State, err error) {
	_, err = c.service.Do(ctx, call, &s)
	return s, err
}
