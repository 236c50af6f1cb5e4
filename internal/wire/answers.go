package wire

// Status is the answer to probes.
type Status struct {
	Status string `json:"status"` // "ok"
}
