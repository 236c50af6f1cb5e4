package shards

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/shard"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/storage/redis/lua/luatest"
)

func TestPage(t *testing.T) {
	t.Parallel()
	scripts, rows := luatest.Scripts(t, "shards"), storetest.KeyRows(t, "shards", "## Keys")
	k := keys{cache: "cache"}
	made := map[string]string{"dcs": k.dcs(), "layout": k.layout("<dc>"), "shards": k.shards("<dc>"),
		"topic": k.topic("<dc>")}
	storetest.RequireDocumented(t, made, rows, "base")
	storetest.RequireScripts(t, "shards", scripts)
	of := map[string][]string{}
	for name, key := range made {
		of[name] = []string{key}
	}
	storetest.RequireUses(t, rows, scripts, of, "names", "watch")
}

func TestScripts(t *testing.T) {
	t.Parallel()
	scripts := luatest.Scripts(t, "shards")
	storetest.RequireStatuses(t, "store.go", scripts)
	storetest.RequireOneCaller(t, scripts, map[string]string{"set": "SetLayout"})
}

func TestKeys(t *testing.T) {
	t.Parallel()
	names := rapid.StringMatching(shard.NamePattern[1 : len(shard.NamePattern)-1])
	storetest.RequireOwnKeys(t, "sc.", names, map[string]storetest.KeyKind{
		"dcs":    {Key: func(prefix, cache, _ string) string { return keys{prefix, cache}.dcs() }},
		"layout": {Key: func(prefix, cache, dc string) string { return keys{prefix, cache}.layout(dc) }, Parts: names},
		"shards": {Key: func(prefix, cache, dc string) string { return keys{prefix, cache}.shards(dc) }, Parts: names},
		"topic":  {Key: func(prefix, cache, dc string) string { return keys{prefix, cache}.topic(dc) }, Parts: names},
	})
}
