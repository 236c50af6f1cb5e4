package records

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/storage/redis/lua/luatest"
)

// Each script is run by one exported method. Those of settings, and of the indexes of cached values, are run by
// helpers.
func TestEachScriptHasOneCaller(t *testing.T) {
	t.Parallel()
	want := map[string][]string{}
	for script, caller := range map[string]string{
		"announce": "Announce", "settle": "Settle", "age": "Age",
		"create": "Create", "check": "Check", "rotate": "Rotate", "revoke": "Revoke", "revokeall": "RevokeAll",
		"list":  "List",
		"patch": "Patch", "state": "Get", "change": "Change", "range": "Range",
		"count": "Add", "import": "Import", "current": "Import",
		"issue": "Issue", "tokensState": "KeepState", "put": "Put", "get": "Get", "store": "Put",
	} {
		want[script+"Script"] = []string{caller}
	}
	require.Equal(t, want, storetest.Callers(t))
}

func TestScriptsPage(t *testing.T) {
	t.Parallel()
	storetest.RequireScripts(t, "records", luatest.Scripts(t, "records"))
}
