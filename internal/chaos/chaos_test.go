package main

import (
	"context"
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

// A scenario that cannot go on ends, is cleaned up, and has failed.
func TestHostEndsTheScenario(t *testing.T) {
	t.Parallel()
	h := &host{name: "h", ctx: context.Background()}
	var order []string
	h.run(func() {
		h.Cleanup(func() { order = append(order, "first") })
		h.Cleanup(func() {
			order = append(order, "second")
			h.Fatalf("in cleanup")
		})
		h.Fatalf("no %s", "Redis")
		order = append(order, "never")
	})
	require.Equal(t, []string{"second", "first"}, order)
	require.Equal(t, []string{"no Redis", "in cleanup"}, h.failed())
	require.True(t, h.Failed())
}
