package channels

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/storage/redis/lua/luatest"
)

// made returns the results of the functions of keys.go for the page's placeholders.
func made(prefix string) map[string]string {
	k := KeysOf(prefix, "ch")
	return map[string]string{
		"Clock": k.Clock(), "Epoch": k.Epoch(), "Subscribers": k.Subscribers(), "Label": k.Label(),
		"Purged": k.Purged(), "Deleted": k.Deleted(), "Producers": k.Producers(),
		"Mark": k.Mark("<subscriber>"), "Message": strings.Replace(k.Message(7), "7", "<clock>", 1),
		"MessageID": k.MessageID("<id>"), "Topic": k.Topic(), "receiptKey": receiptKey(prefix),
		"receiptTopic":      receiptTopic(prefix),
		"configurationsKey": configurationsKey(prefix),
	}
}

// rows returns the rows of the tables of channels and of servers, without those of the connection.
func rows(t testing.TB) []storetest.KeyRow {
	t.Helper()
	all := slices.Concat(storetest.KeyRows(t, "channels", "## Keys"), storetest.KeyRows(t, "servers", "## Keys"))
	return slices.DeleteFunc(all, func(r storetest.KeyRow) bool { return strings.HasPrefix(r.Key, "tidemark.ready.") })
}

func TestPage(t *testing.T) {
	t.Parallel()
	scripts := luatest.Scripts(t, "channels")
	storetest.RequireDocumented(t, made(""), rows(t), "MarkPrefix", "MessagePrefix", "join", "with")
	own := slices.IndexFunc(scripts, func(f luatest.File) bool { return f.Stem() == "announce" })
	storetest.RequireScripts(t, "servers", scripts[own:own+1])
	storetest.RequireScripts(t, "channels", slices.Delete(slices.Clone(scripts), own, own+1))
	storetest.RequireUses(t, rows(t), scripts, map[string][]string{
		"clock": {"c.{ch}.clock"}, "epoch": {"c.{ch}.epoch"}, "subs": {"c.{ch}.subs"},
		"mark":    {"c.{ch}.r.<subscriber>"},
		"message": {"c.{ch}.m.<clock>"}, "records": {"c.{ch}.mid.<id>"}, "record": {"c.{ch}.mid.<id>"},
		"label": {"c.{ch}.label"}, "purged": {"c.{ch}.purged"}, "deleted": {"c.{ch}.deleted"},
		// Arguments from which a script makes keys that it can't declare.
		"message_prefix": {"c.{ch}.m.<clock>"}, "mark_prefix": {"c.{ch}.r.<subscriber>"}, "topic": {"c.{ch}"},
		"configurations": {"tidemark.configurations"},
		"options":        {"c.{ch}.producers"}, "producers": {"c.{ch}.producers"},
	}, "position", "life", "listen", "start", "compare", "poll", "list")
}

func TestScripts(t *testing.T) {
	t.Parallel()
	// of package lookup
	scripts := slices.DeleteFunc(luatest.Scripts(t, "channels"),
		func(f luatest.File) bool { return f.Stem() == "open" })
	storetest.RequireOneCaller(t, scripts, map[string]string{"describe": "DescribeMany", "publish": "publish"})
	storetest.RequireStatuses(t, "reply.go", scripts)
}

func TestPrefix(t *testing.T) {
	t.Parallel()
	plain, prefixed := made(""), made("mm1:")
	for name, key := range plain {
		require.Equal(t, "mm1:"+key, prefixed[name], name)
	}
	k := KeysOf("mm1:", "ch")
	require.Equal(t, k.MarkPrefix()+"s", k.Mark("s"))
	require.Equal(t, k.MessagePrefix()+"-7", k.Message(-7))
	require.Equal(t, "mm1:c.{ch}.m.-9007199254740991", k.Message(clock.Min))
}

func TestKeysOfAChannelShareASlotAndNothingElse(t *testing.T) {
	t.Parallel()
	names := storetest.AnyName("clock", "epoch", "subs", "r.clock", "m.1", "mid.1", "r", "m", "mid", "0", "1",
		"a.clock", "a.m.1")
	clocks := rapid.Map(rapid.Int64Range(int64(clock.Min), int64(clock.Max)),
		func(at int64) string { return clock.Clock(at).String() })
	fixed := func(key func(Keys) string) storetest.KeyKind {
		return storetest.KeyKind{Key: func(prefix, name, _ string) string { return key(KeysOf(prefix, name)) }}
	}
	storetest.RequireOwnKeys(t, "c.", names, map[string]storetest.KeyKind{
		"clock": fixed(Keys.Clock), "epoch": fixed(Keys.Epoch), "subs": fixed(Keys.Subscribers),
		"topic": fixed(Keys.Topic), "purged": fixed(Keys.Purged), "deleted": fixed(Keys.Deleted),
		"mark": {Key: func(prefix, name, part string) string { return KeysOf(prefix, name).Mark(part) },
			Parts: names},
		"record": {Key: func(prefix, name, part string) string { return KeysOf(prefix, name).MessageID(part) },
			Parts: names},
		"message": {Key: func(prefix, name, part string) string { return KeysOf(prefix, name).MessagePrefix() + part },
			Parts: clocks},
	})
}
