package wire

// LockRequest asks for a lock, or renews it. All members may be left out.
type LockRequest struct {
	TTL      Duration `json:"ttl,omitzero"`       // 0: 30 s
	Wait     Wait     `json:"wait,omitzero"`      // how long to wait if another holds the lock; 0: not at all
	Token    string   `json:"token,omitempty"`    // of the holder: the lock is renewed
	NewToken string   `json:"newToken,omitempty"` // chosen by the client, so that a repeat is the same grant; "": the service makes one
}

// LockRelease ends a lock.
type LockRelease struct {
	Token string `json:"token"`
}
