package leases

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/storage/redis/internal/rig"
	"github.com/tidemark-dev/tidemark/storage/redis/lua/luatest"
)

func TestPage(t *testing.T) {
	t.Parallel()
	scripts, rows := luatest.Scripts(t, "leases"), rig.KeyRows(t, "## Leases")
	rig.RequireDocumented(t, map[string]string{"holder": holder("", "name"), "topic": topic("", "name")}, rows)
	rig.RequireSections(t, "## Leases", scripts)
	rig.RequireUses(t, rows, scripts, map[string][]string{
		"holder": {"lease.{name}.holder"}, "topic": {"lease.{name}"},
	}, "watch")
	require.Equal(t, "mm1:lease.{name}.holder", layout("mm1:").Holder("name"))
	require.Equal(t, "mm1:lease.{name}", layout("mm1:").Topic("name"))
}

func TestScripts(t *testing.T) {
	t.Parallel()
	scripts := luatest.Scripts(t, "leases")
	rig.RequireStatuses(t, "store.go", scripts)
	rig.RequireOneCaller(t, scripts, map[string]string{"acquire": "Grant", "renew": "ProlongEach"})
}
