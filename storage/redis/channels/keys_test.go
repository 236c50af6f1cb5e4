package channels

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/rig"
	"github.com/tidemark-dev/tidemark/storage/redis/lua/luatest"
)

// made returns what the functions of keys.go make of the page's placeholders.
func made(prefix string) map[string]string {
	k := KeysOf(prefix, "ch")
	return map[string]string{
		"Clock": k.Clock(), "Epoch": k.Epoch(), "Subscribers": k.Subscribers(), "Label": k.Label(),
		"Mark": k.Mark("<subscriber>"), "Message": strings.Replace(k.Message(7), "7", "<clock>", 1),
		"MessageID": k.MessageID("<id>"), "Topic": k.Topic(), "receiptKey": receiptKey(prefix),
	}
}

// rows returns the rows of the page's table without those of the connection.
func rows(t testing.TB) []rig.KeyRow {
	t.Helper()
	return slices.DeleteFunc(rig.KeyRows(t, "## Keys"), func(r rig.KeyRow) bool {
		return strings.HasPrefix(r.Key, "tidemark.ready.")
	})
}

func TestPage(t *testing.T) {
	t.Parallel()
	scripts := luatest.Scripts(t, "channels")
	rig.RequireDocumented(t, made(""), rows(t), "MarkPrefix", "MessagePrefix")
	rig.RequireSections(t, "## Scripts", scripts)
	rig.RequireUses(t, rows(t), scripts, map[string][]string{
		"clock": {"c.{ch}.clock"}, "epoch": {"c.{ch}.epoch"}, "subs": {"c.{ch}.subs"}, "mark": {"c.{ch}.r.<subscriber>"},
		"message": {"c.{ch}.m.<clock>"}, "records": {"c.{ch}.mid.<id>"}, "record": {"c.{ch}.mid.<id>"}, "label": {"c.{ch}.label"},
		// Arguments from which a script makes keys that it can't declare.
		"message_prefix": {"c.{ch}.m.<clock>"}, "mark_prefix": {"c.{ch}.r.<subscriber>"}, "topic": {"c.{ch}"},
	}, "position", "life", "listen", "start", "compare")
}

func TestScripts(t *testing.T) {
	t.Parallel()
	scripts := slices.DeleteFunc(luatest.Scripts(t, "channels"), func(f luatest.File) bool { return f.Stem() == "open" }) // of queues.Lookup
	rig.RequireOneCaller(t, scripts, nil)
	rig.RequireStatuses(t, "reply.go", scripts)
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

// keyKinds make a key of a channel from names that are valid.
var keyKinds = map[string]func(ch Keys, name string, at clock.Clock) string{
	"clock":   func(ch Keys, _ string, _ clock.Clock) string { return ch.Clock() },
	"epoch":   func(ch Keys, _ string, _ clock.Clock) string { return ch.Epoch() },
	"subs":    func(ch Keys, _ string, _ clock.Clock) string { return ch.Subscribers() },
	"topic":   func(ch Keys, _ string, _ clock.Clock) string { return ch.Topic() },
	"mark":    func(ch Keys, name string, _ clock.Clock) string { return ch.Mark(name) },
	"record":  func(ch Keys, name string, _ clock.Clock) string { return ch.MessageID(name) },
	"message": func(ch Keys, _ string, at clock.Clock) string { return ch.Message(at) },
}

func TestKeysOfAChannelShareASlotAndNothingElse(t *testing.T) {
	t.Parallel()
	tricky := rapid.SampledFrom([]string{"clock", "epoch", "subs", "r.clock", "m.1", "mid.1", "r", "m", "mid", "0", "1", "a.clock", "a.m.1"})
	anyName := rapid.OneOf(tricky, rig.Names())
	kinds := []string{"clock", "epoch", "subs", "topic", "mark", "record", "message"}
	type made struct {
		kind, channel, name string
		at                  clock.Clock
	}
	keys := rapid.Custom(func(t *rapid.T) made {
		m := made{kind: rapid.SampledFrom(kinds).Draw(t, "kind"), channel: anyName.Draw(t, "channel")}
		switch m.kind {
		case "mark", "record":
			m.name = anyName.Draw(t, "name")
		case "message":
			m.at = clock.Clock(rapid.Int64Range(int64(clock.Min), int64(clock.Max)).Draw(t, "at"))
		}
		return m
	})
	rapid.Check(t, func(t *rapid.T) {
		prefix := rapid.SampledFrom([]string{"", "mm1:", "c."}).Draw(t, "prefix")
		key := func(m made) string { return keyKinds[m.kind](KeysOf(prefix, m.channel), m.name, m.at) }
		a, b := keys.Draw(t, "a"), keys.Draw(t, "b")
		require.NoError(t, channel.CheckChannel(a.channel))
		require.Equal(t, a.channel, rig.HashTag(key(a)))
		require.True(t, strings.HasPrefix(key(a), prefix+"c.{"))
		require.Equal(t, a == b, key(a) == key(b), "%s and %s", key(a), key(b))
	})
}
