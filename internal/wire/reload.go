package wire

// Reloaded is the answer to a reload of the configuration.
type Reloaded struct {
	Changes []OptionChange `json:"changes"` // that are in effect now
	Restart []string       `json:"restart"` // options with other values that take effect after a restart
}

// OptionChange is a change of an option, without secrets.
type OptionChange struct {
	Option string `json:"option"`         // YAML key, or the path of a part of it
	From   string `json:"from,omitempty"` // left out: it was not set
	To     string `json:"to,omitempty"`   // left out: it is not set any more
}
