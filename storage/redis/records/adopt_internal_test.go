package records

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/records/adopt"
)

// A key that is about to expire, or has expired between PTTL and GETRANGE, isn't there.
func TestTextOf(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		ms    int64
		value string
		want  adopt.Text
	}{
		{-2, "", adopt.Text{}},
		{0, "x", adopt.Text{}},
		{1, "x", adopt.Text{Found: true, Value: "x", Left: time.Millisecond}},
		{1, "", adopt.Text{}},
		{-1, "", adopt.Text{Found: true, Left: -time.Millisecond}},
	} {
		require.Equal(t, one.want, textOf(one.ms, one.value), one.ms)
	}
}
