package main

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestScenariosHaveNamesOfTheirOwn(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, c := range scenarios(regexp.MustCompile("")) {
		require.Regexp(t, `^[a-z0-9-]+$`, c.name)
		require.False(t, seen[c.name], c.name)
		require.NotEmpty(t, c.fault, c.name)
		require.NotContains(t, c.fault, "|", c.name)
		require.NotNil(t, c.inject, c.name)
		require.NotZero(t, c.limits.Gap, c.name)
		seen[c.name] = true
	}
	require.Len(t, scenarios(regexp.MustCompile("^redis-kill$")), 1)
}
