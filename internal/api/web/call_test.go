package web

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzRequestID shows that an ID that is accepted from a client can't disturb a header or a log line.
func FuzzRequestID(f *testing.F) {
	for _, s := range []string{"", "a", "a b", "a\nb", "é", "\x7f"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, id string) {
		if saneRequestID(id) {
			require.Regexp(t, `^[!-~]{1,128}$`, id)
		}
	})
}
