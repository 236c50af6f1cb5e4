package wire

import "github.com/tidemark-dev/tidemark/client"

// Keys is a page of API keys, by ID.
type Keys struct {
	Keys   []client.Key `json:"keys"`
	Cursor string       `json:"cursor,omitempty"` // of the next page; left out on the last
}

// Revocations is a page of revocations, by what they revoke.
type Revocations struct {
	Revocations []client.Revocation `json:"revocations"`
	Cursor      string              `json:"cursor,omitempty"` // of the next page; left out on the last
}
