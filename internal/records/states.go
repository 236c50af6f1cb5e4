package records

import (
	"context"
	"time"

	"github.com/tidemark-dev/tidemark/fault"
)

// Bounds of states.
const (
	MinStateTTL    = time.Minute
	MaxStateTTL    = time.Hour // also the default
	MaxStateFields = 64
	MaxStateBytes  = 64 << 10 // of all fields and their values
	MaxStateValue  = 16 << 10 // of one value
)

// StateStore keeps states. Several goroutines may call it at the same time.
type StateStore interface {
	// Patch changes a state, or makes it, and returns it. Errors: ErrManyFields.
	Patch(ctx context.Context, p StatePatch) (State, error)
	// Get returns a state. Errors: ErrNoState.
	Get(ctx context.Context, process, id string) (State, error)
	// Delete deletes a state, if there is one.
	Delete(ctx context.Context, process, id string) error
}

// State is the state that a process has written for one of its runs.
type State struct {
	Process, ID string
	Fields      map[string]string // may be empty: the state doesn't exist any more
	Expires     time.Time
}

// StatePatch is a change of a state.
type StatePatch struct {
	Process, ID string
	Set         map[string]string
	Delete      []string      // fields that are removed
	Replace     bool          // remove all others, too
	TTL         time.Duration // how long the state is kept from now on; 0: MaxStateTTL
}

// States are states in a store. Several goroutines may call its methods at the same time.
type States struct{ store StateStore }

// NewStates returns states in a store.
func NewStates(s StateStore) *States { return &States{store: s} }

// Patch changes a state, or makes it, and returns it. A repeat changes only the end of the state. Errors: invalid-id,
// invalid-state, ErrManyFields.
func (s *States) Patch(ctx context.Context, p StatePatch) (State, error) {
	if err := p.check(); err != nil {
		return State{}, err
	}
	return s.store.Patch(ctx, p)
}

func (p *StatePatch) check() error {
	if p.TTL == 0 {
		p.TTL = MaxStateTTL
	}
	if err := checkState(p.Process, p.ID); err != nil {
		return err
	}
	switch {
	case p.TTL < MinStateTTL || p.TTL > MaxStateTTL:
		return invalid(fault.SlugInvalidState, "ttl", "ttl is %v, %v to %v are allowed", p.TTL, MinStateTTL,
			MaxStateTTL)
	case len(p.Set)+len(p.Delete) == 0 && !p.Replace:
		return invalid(fault.SlugInvalidState, "fields", "there is nothing to change")
	case len(p.Set)+len(p.Delete) > MaxStateFields:
		return ErrManyFields
	}
	for _, field := range p.Delete {
		if err := CheckID("fields", field); err != nil {
			return err
		}
	}
	for field, value := range p.Set {
		if err := CheckID("fields", field); err != nil {
			return err
		}
		if len(value) > MaxStateValue {
			return invalid(fault.SlugInvalidState, "fields", "the value of %q has %d bytes, at most %d are allowed",
				field, len(value), MaxStateValue)
		}
	}
	return nil
}

func checkState(process, id string) error {
	if err := CheckID("process", process); err != nil {
		return err
	}
	return CheckID("id", id)
}

// Get returns a state. Errors: invalid-id, ErrNoState.
func (s *States) Get(ctx context.Context, process, id string) (State, error) {
	if err := checkState(process, id); err != nil {
		return State{}, err
	}
	return s.store.Get(ctx, process, id)
}

// Delete deletes a state, if there is one. Errors: invalid-id.
func (s *States) Delete(ctx context.Context, process, id string) error {
	if err := checkState(process, id); err != nil {
		return err
	}
	return s.store.Delete(ctx, process, id)
}
