package launch_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/test/launch"
)

// After Fatalf a run ends, its cleanups run, and it has failed.
func TestHostEndsTheRun(t *testing.T) {
	t.Parallel()
	h := launch.NewHost(t.Context(), "h")
	var order []string
	h.Run(func() {
		h.Cleanup(func() { order = append(order, "first") })
		h.Cleanup(func() {
			order = append(order, "second")
			h.Fatalf("in cleanup")
		})
		h.Fatalf("no %s", "Redis")
		order = append(order, "never")
	})
	require.Equal(t, []string{"second", "first"}, order)
	require.Equal(t, []string{"no Redis", "in cleanup"}, h.Failures())
	require.True(t, h.Failed())
}
