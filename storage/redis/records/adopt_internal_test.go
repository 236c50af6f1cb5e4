package records

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/records/adopt"
)

// A key that begins or ends while it is read, or is about to end, isn't there.
func TestTextOf(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		exists int64
		value  string
		ms     int64
		want   adopt.Text
	}{
		{0, "", noKey, adopt.Text{}},
		{0, "", -1, adopt.Text{}},
		{0, "x", 1, adopt.Text{}},
		{1, "x", noKey, adopt.Text{}},
		{1, "x", 0, adopt.Text{}},
		{1, "x", 1, adopt.Text{Found: true, Value: "x", Left: time.Millisecond}},
		{1, "", 1, adopt.Text{Found: true, Left: time.Millisecond}},
		{1, "", -1, adopt.Text{Found: true, Left: -time.Millisecond}},
	} {
		require.Equal(t, one.want, textOf(one.exists, one.value, one.ms), one)
	}
}
