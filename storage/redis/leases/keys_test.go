package leases

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/storage/redis/lua/luatest"
)

func TestPage(t *testing.T) {
	t.Parallel()
	scripts, rows := luatest.Scripts(t, "leases"), storetest.KeyRows(t, "leases", "## Keys")
	storetest.RequireDocumented(t, map[string]string{"holder": holder("", "name"), "topic": topic("", "name")}, rows)
	storetest.RequireScripts(t, "leases", scripts)
	storetest.RequireUses(t, rows, scripts, map[string][]string{
		"holder": {"lease.{name}.holder"}, "topic": {"lease.{name}"}, "fence": nil, // of locks
	}, "watch")
	require.Equal(t, "mm1:lease.{name}.holder", layout("mm1:").Holder("name"))
	require.Equal(t, "mm1:lease.{name}", layout("mm1:").Topic("name"))
}

func TestScripts(t *testing.T) {
	t.Parallel()
	scripts := luatest.Scripts(t, "leases")
	storetest.RequireStatuses(t, "store.go", scripts)
	storetest.RequireOneCaller(t, scripts, map[string]string{"acquire": "Grant", "renew": "ProlongEach"})
}
