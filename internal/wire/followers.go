package wire

// Following is the channels of notifications that a user follows.
type Following struct {
	Channels []string `json:"channels"`          // sorted, at most 256
	More     bool     `json:"more"`              // there are more
	Unknown  []string `json:"unknown,omitempty"` // kinds of the user's follow lists that the cache doesn't have
}
