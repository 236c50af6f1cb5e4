package v1

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFieldInBody turns the keys of a definition into JSON pointers.
func TestFieldInBody(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"ticketTTL": "/ticketTTL", "match.widen[0].after": "/match/widen/0/after",
		"profile.pools[2].name": "/profile/pools/2/name",
		"match.a/b":             "/match/a~1b", "/already": "/already", "": "",
	} {
		require.Equal(t, want, fieldInBody(path))
	}
}
