package channel

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
)

// nameChecks are the checks of names, with the slug and the field of their errors.
var nameChecks = []struct {
	check func(string) error
	slug  fault.Slug
	field string
}{
	{CheckChannel, fault.SlugInvalidChannel, "channel"},
	{checkSubscriber, fault.SlugInvalidSubscriber, "subscriber"},
	{CheckMessageID, fault.SlugInvalidMessageID, "id"},
}

func TestNamesThatAreValid(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"a", "Z", "0", "chX", "my-channel", "a.b:c_d-e", "01HZZZZZZZZZZZZZZZZZZZZZZ1", "a--", "a..b",
		strings.Repeat("x", MaxNameBytes),
	} {
		for _, c := range nameChecks {
			require.NoError(t, c.check(name), name)
		}
	}
}

func TestNamesThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, says string }{
		{"", "is empty"},
		{strings.Repeat("x", MaxNameBytes+1), "has 129 bytes, at most 128"},
		{strings.Repeat("é", MaxNameBytes), "has 256 bytes, at most 128"},
		{"{a}", `has '{' at byte 0`},
		{"a{b", `has '{' at byte 1`},
		{"a}b", `has '}' at byte 1`},
		{"a/b", `has '/' at byte 1`},
		{"a%2Fb", `has '%' at byte 1`},
		{"a b", `has ' ' at byte 1`},
		{"a\x00", `has '\x00' at byte 1`},
		{"a\n", `has '\n' at byte 1`},
		{"a\x7f", `has '\x7f' at byte 1`},
		{".", `has '.' at byte 0`},
		{"..", `has '.' at byte 0`},
		{"-a", `has '-' at byte 0`},
		{":a", `has ':' at byte 0`},
		{"_a", `has '_' at byte 0`},
		{"aé", `has 'é' at byte 1`},
		{"a١", `has '١' at byte 1`},
		{"a\xff", `at byte 1`},
		{"a*", `has '*' at byte 1`},
	} {
		t.Run(fmt.Sprintf("%.20q", tt.name), func(t *testing.T) {
			t.Parallel()
			for _, c := range nameChecks {
				e := requireError(t, c.check(tt.name), fault.Invalid, c.slug)
				require.Equal(t, c.field, e.Field)
				require.Contains(t, e.Detail, tt.says)
				require.True(t, utf8.ValidString(e.Detail))
				require.Less(t, len(e.Detail), 300)
			}
		})
	}
}

// requireError requires a *fault.Error, perhaps wrapped, of a kind and a slug, and returns a copy of it.
func requireError(t *testing.T, err error, kind fault.Kind, slug fault.Slug) fault.Error {
	t.Helper()
	var e *fault.Error
	require.True(t, errors.As(err, &e), "%v", err)
	require.Equal(t, slug, e.Slug)
	require.Equal(t, kind, e.Kind)
	require.NotEmpty(t, e.Detail)
	return *e
}

// FuzzCheckName holds the checks against the regular expression.
func FuzzCheckName(f *testing.F) {
	for _, name := range []string{"", "a", "a.b:c_d-e", "{a}", "a\n", "-", "é", strings.Repeat("x", 128),
		strings.Repeat("x", 129)} {
		f.Add(name)
	}
	pattern := regexp.MustCompile(strings.TrimSuffix(NamePattern, "$") + `\z`)
	f.Fuzz(func(t *testing.T, name string) {
		for _, c := range nameChecks {
			err := c.check(name)
			require.Equal(t, pattern.MatchString(name), err == nil, "%q: %v", name, err)
			if err != nil {
				requireError(t, err, fault.Invalid, c.slug)
			}
		}
	})
}
