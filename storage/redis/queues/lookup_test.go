package queues

import (
	"slices"
	"testing"

	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/storage/redis/lua/luatest"
)

// What the lookup does is tested by the conformance suite of channels.
func TestScript(t *testing.T) {
	t.Parallel()
	open := slices.DeleteFunc(luatest.Scripts(t, "channels"), func(f luatest.File) bool { return f.Stem() != "open" })
	storetest.RequireOneCaller(t, open, map[string]string{"open": "Reserve"})
}
