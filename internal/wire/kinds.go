package wire

// Kind describes one pattern of keys.
type Kind struct {
	Name      string   `json:"name"`
	Pattern   string   `json:"pattern"`
	Type      string   `json:"type"` // of the value in Redis
	Form      string   `json:"form"`
	TTL       Duration `json:"ttl,omitzero"`        // the longest; left out: the key is permanent
	Permanent string   `json:"permanent,omitempty"` // why
	Secret    bool     `json:"secret"`
	MaxBytes  int      `json:"maxBytes"`
	Redis     string   `json:"redis"` // which one has the keys
}

// Kinds is the table of kinds.
type Kinds struct {
	Kinds []Kind `json:"kinds"`
}
