package names_test

import (
	"encoding/hex"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/internal/names"
)

func TestOfSubject(t *testing.T) {
	t.Parallel()
	for subject, want := range map[string]string{
		"":                        "",
		"ann":                     "ann",
		"a_b.c-d:e":               "a_b.c-d:e",
		"auth0|17":                "xs--auth0_7C17",
		"ann@example.com":         "xs--ann_40example.com",
		"_x":                      "xs--_5Fx",
		"a:b c":                   "xs--a_3Ab_20c",
		"é":                       "xs--_C3_A9",
		"xs--_5Fx":                "xs--xs--_5F5Fx",
		"xh--1":                   "xs--xh--1",
		strings.Repeat("x", 128):  strings.Repeat("x", 128),
		strings.Repeat("x", 129):  "xh--",
		strings.Repeat("/", 1000): "xh--",
	} {
		got := names.OfSubject(subject)
		if strings.HasPrefix(want, "xh--") {
			require.Regexp(t, `^xh--[0-9a-f]{64}$`, got)
			continue
		}
		require.Equal(t, want, got)
	}
}

var escapes = regexp.MustCompile(`_[0-9A-F]{2}`)

// TestNamesOfSubjects: each is a valid name, from which the subject can be read, so that no two have the same one.
func TestNamesOfSubjects(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		odd := rapid.StringMatching(`(xs--|xh--)?[a-z0-9_:.|@-]{1,30}`)
		subject := rapid.OneOf(odd, rapid.StringN(1, 30, 300)).Draw(t, "subject")
		name := names.OfSubject(subject)
		require.Empty(t, names.Wrong(name))
		switch rest, isEscaped := strings.CutPrefix(name, "xs--"); {
		case isEscaped:
			require.LessOrEqual(t, len(name), 96)
			require.NotContains(t, name, ":", "a device follows a colon")
			require.Equal(t, subject, escapes.ReplaceAllStringFunc(rest, func(e string) string {
				b, err := hex.DecodeString(e[1:])
				require.NoError(t, err)
				return string(b)
			}))
		case names.IsOfSubject(name):
			require.Greater(t, len(subject), 30)
		default:
			require.Equal(t, subject, name)
		}
	})
}
