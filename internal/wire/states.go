package wire

// StateChange is the body that changes or replaces a state.
type StateChange struct {
	Fields map[string]string `json:"fields,omitempty"` // are set
	Remove []string          `json:"remove,omitempty"` // names of fields
	TTL    Duration          `json:"ttl,omitzero"`     // how long the state is kept from now on; 0: 1 h
}
