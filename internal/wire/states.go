package wire

import "time"

// StateChange is the body that changes or replaces a state.
type StateChange struct {
	Fields map[string]string `json:"fields,omitempty"` // are set
	Remove []string          `json:"remove,omitempty"` // names of fields
	TTL    Duration          `json:"ttl,omitzero"`     // how long the state is kept from now on; 0: 1 h
}

// State is the state that a process has written about one of its runs.
type State struct {
	Fields    map[string]string `json:"fields"`
	ExpiresAt time.Time         `json:"expiresAt,omitzero"` // zero: no field is left
}
