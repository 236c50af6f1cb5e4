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
		{"{a}", `has '{' at byte 0`},
		{"a{b", `has '{' at byte 1`},
		{"a}b", `has '}' at byte 1`},
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

func TestNamesOfOneLength(t *testing.T) {
	t.Parallel()
	require.NoError(t, CheckChannel(strings.Repeat("x", MaxChannelBytes)))
	require.NoError(t, CheckChannel(strings.Repeat("x/", MaxChannelBytes/2)[:MaxChannelBytes-1]))
	require.ErrorContains(t, CheckChannel(strings.Repeat("x", MaxChannelBytes+1)), "has 513 bytes, at most 512")
	for _, c := range nameChecks[1:] {
		require.ErrorContains(t, c.check(strings.Repeat("x", MaxNameBytes+1)), "has 129 bytes, at most 128")
		require.ErrorContains(t, c.check(strings.Repeat("é", MaxNameBytes)), "has 256 bytes, at most 128")
	}
}

// TestSegments: only names of channels have path segments.
func TestSegments(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a/b", "chat/7", "a/_b/-c/:d", "a/b.c/d..e", "a/b."} {
		require.NoError(t, CheckChannel(name), name)
		for _, c := range nameChecks[1:] {
			e := requireError(t, c.check(name), fault.Invalid, c.slug)
			require.Contains(t, e.Detail, `has '/' at byte 1`[:7])
		}
	}
	for name, says := range map[string]string{
		"/": "empty path segment at byte 0", "/a": "empty path segment at byte 0", "a/": "ends with a slash",
		"a//b": "empty path segment at byte 2", "a/.": `has '.' at byte 2`, "a/..": `has '.' at byte 2`,
		"a/../b": `has '.' at byte 2`, "a/./b": `has '.' at byte 2`, "a/.b": `has '.' at byte 2`,
		"../a": `has '.' at byte 0`, "_a/b": `has '_' at byte 0`, `a\b`: `has '\\' at byte 1`, "a/b\x00": `has '\x00' at byte 3`,
		"a/é": `has 'é' at byte 2`, "a/{b}": `has '{' at byte 2`,
	} {
		e := requireError(t, CheckChannel(name), fault.Invalid, fault.SlugInvalidChannel)
		require.Contains(t, e.Detail, says, name)
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
	for _, name := range []string{"a/b", "/", "a/", "a//b", "a/../b", "a/_b", strings.Repeat("x", 512), strings.Repeat("x", 513)} {
		f.Add(name)
	}
	whole := func(pattern string) *regexp.Regexp {
		return regexp.MustCompile(strings.TrimSuffix(pattern, "$") + `\z`)
	}
	pattern, ofChannels := whole(NamePattern), whole(ChannelPattern)
	f.Fuzz(func(t *testing.T, name string) {
		for i, c := range nameChecks {
			err := c.check(name)
			valid := pattern.MatchString(name)
			if i == 0 {
				valid = ofChannels.MatchString(name) && len(name) <= MaxChannelBytes
			}
			require.Equal(t, valid, err == nil, "%q: %v", name, err)
			if err != nil {
				requireError(t, err, fault.Invalid, c.slug)
			}
		}
	})
}
