package patterns_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/patterns"
)

func inNames(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || strings.ContainsRune("_.:-", r)
}

func TestForeignPatterns(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]string{
		"*":               "error parsing regexp: missing argument to repetition operator: `*`. A rule has a regular expression, in which .* stands for any text",
		"chat.**":         "invalid nested repetition operator: `**`. A rule has a regular expression, in which .* stands for any text",
		"orders*":         `s* would be any number of "s", since a rule has a regular expression. For any text write s.*, or s{0,} if that is meant`,
		"(?P<a>chat:*)x":  `:* would be any number of ":"`,
		"inbox[.]{sub}":   "no name has a brace. {sub} and {name} are for grants: in a rule (?P<user>[^.]+) captures",
		"inbox[.]${user}": "no name has a brace",
		"chat[.]*":        `\.* would be any number of ".", since a rule has a regular expression. For any text write \..*, or \.{0,} if that is meant`,
		"chat/.*":         "no name has '/': leave it out",
		"a|chat/b":        "no name has '/': leave it out",
		"chat(/x)?":       "no name has '/': leave it out",
		`a|chat\.\*`:      "no name has '*'",
	} {
		_, err := patterns.Compile(pattern, inNames)
		require.ErrorContains(t, err, want, pattern)
	}
	for _, pattern := range []string{"chat", "chat[.].*", `chat\..+`, "s{0,}", "(?:ab)*", "[a-z]*", "^chat.*$", ".*",
		"a|b"} {
		_, err := patterns.Compile(pattern, inNames)
		require.NoError(t, err, pattern)
	}
}

func TestMatchesHost(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{"a.example.com": true, "a.b.example.com": true, "example.com": false,
		"evilexample.com": false, ".example.com": false, "a.example.com.evil": false} {
		require.Equal(t, want, patterns.MatchesHost("*.example.com", host), host)
	}
	require.True(t, patterns.MatchesHost("example.com", "example.com"))
	require.False(t, patterns.MatchesHost("example.com", "a.example.com"))
}
