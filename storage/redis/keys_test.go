package redis

import (
	"go/ast"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/storage/redis/lua/luatest"
)

const internalsPage = "../../docs/redis-internals.md"

// section gives the text of the page under a heading, up to the next heading of the same or a higher level.
func section(t testing.TB, heading string) string {
	t.Helper()
	page, err := os.ReadFile(internalsPage)
	require.NoError(t, err)
	_, after, found := strings.Cut("\n"+string(page), "\n"+heading+"\n")
	require.True(t, found, "%s has no %q", internalsPage, heading)
	level := strings.IndexByte(heading, ' ')
	next := regexp.MustCompile(`(?m)^#{1,` + string(rune('0'+level)) + `} `)
	if end := next.FindStringIndex(after); end != nil {
		after = after[:end[0]]
	}
	return after
}

// table gives the rows of the first table in a text, as cells. Backquotes around a whole cell are taken off.
func table(t testing.TB, text string) (header []string, rows [][]string) {
	t.Helper()
	for line := range strings.Lines(text) {
		line, isRow := strings.CutPrefix(strings.TrimSpace(line), "|")
		if !isRow {
			if header != nil {
				break
			}
			continue
		}
		cells := strings.Split(strings.TrimSuffix(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case header == nil:
			header = cells
		case strings.Trim(strings.Join(cells, ""), "-:") != "":
			require.Len(t, cells, len(header), "%q", line)
			rows = append(rows, cells)
		}
	}
	require.NotEmpty(t, rows)
	return header, rows
}

// keyRow is a row of the page's key table.
type keyRow struct {
	key, kind                  string
	changedBy, renewedBy, read []string
}

func keyRows(t testing.TB) []keyRow {
	t.Helper()
	return append(keyRowsOf(t, "## Keys"), keyRowsOf(t, "## Keys of a queue")...)
}

func keyRowsOf(t testing.TB, heading string) []keyRow {
	t.Helper()
	header, rows := table(t, section(t, heading))
	require.Equal(t, []string{"Key", "Type", "Value", "Ends", "Changed by", "Renewed by", "Read by"}, header)
	list := func(cell string) []string {
		return strings.FieldsFunc(cell, func(r rune) bool { return r == ',' || r == ' ' })
	}
	var found []keyRow
	for _, cells := range rows {
		require.NotEmpty(t, cells[2], "%s has a value", cells[0])
		require.NotEmpty(t, cells[3], "%s has an end", cells[0])
		found = append(found, keyRow{
			key: strings.Trim(cells[0], "`"), kind: cells[1],
			changedBy: list(cells[4]), renewedBy: list(cells[5]), read: list(cells[6]),
		})
	}
	return found
}

// builders gives what each function of keys.go that makes a key makes of the page's placeholders.
func builders(prefix string) map[string]string {
	k := keyspace{prefix: prefix}
	ch, q := k.channel("ch"), k.queue("q")
	return map[string]string{
		"receiptKey":  k.receiptKey(),
		"readyTopic":  readyTopic(prefix, "<server>"),
		"readyKey":    readyKey(prefix, "<server>"),
		"clock":       ch.clock(),
		"epoch":       ch.epoch(),
		"subscribers": ch.subscribers(),
		"label":       ch.label(),
		"mark":        ch.mark("<subscriber>"),
		"message":     strings.Replace(ch.message(7), "7", "<clock>", 1),
		"messageID":   ch.messageID("<id>"),
		"topic":       ch.topic(),
		"definitions": k.definitions(),
		"waiting":     q.waiting(),
		"expiries":    q.expiries(),
		"proposed":    q.proposed(),
		"claims":      q.claims(),
		"changes":     q.changes(),
		"outbox":      q.outbox(),
		"matched":     q.matched(),
		"stats":       q.stats(),
		"director":    q.director(),
		"nudges":      q.nudges(),
		"ticket":      q.ticket("<id>"),
		"assignment":  q.assignment("<id>"),
		"match":       q.match("<match>"),
	}
}

// prefixes are functions of keys.go that make the beginning of a key.
var prefixes = []string{"markPrefix", "messagePrefix"}

func TestKeysAreDocumented(t *testing.T) {
	t.Parallel()
	var functions []string
	for _, d := range goFiles(t)["keys.go"].Decls {
		f, ok := d.(*ast.FuncDecl)
		require.True(t, ok || d.(*ast.GenDecl) != nil)
		if ok && f.Type.Results != nil {
			if result, ok := f.Type.Results.List[0].Type.(*ast.Ident); ok && result.Name == "string" {
				functions = append(functions, f.Name.Name)
			}
		}
	}
	made := builders("")
	var known, keys, documented []string
	for name, key := range made {
		known, keys = append(known, name), append(keys, key)
	}
	require.ElementsMatch(t, append(known, prefixes...), functions, "functions of keys.go, and of this test")
	for _, row := range keyRows(t) {
		documented = append(documented, row.key)
	}
	require.ElementsMatch(t, keys, documented, "keys that are made, and keys on the page")
}

// rowsOf says which rows of the page a key is of that a script's header names.
var rowsOf = map[string][]string{
	"clock": {"c.{ch}.clock"}, "epoch": {"c.{ch}.epoch"}, "subs": {"c.{ch}.subs"}, "mark": {"c.{ch}.r.<subscriber>"},
	"message": {"c.{ch}.m.<clock>"}, "records": {"c.{ch}.mid.<id>"}, "record": {"c.{ch}.mid.<id>"}, "label": {"c.{ch}.label"},
	// Arguments from which a script makes keys that it can't declare.
	"message_prefix": {"c.{ch}.m.<clock>"}, "mark_prefix": {"c.{ch}.r.<subscriber>"}, "topic": {"c.{ch}"},
	"waiting": {"mm.{q}.allTickets"}, "expiries": {"mm.{q}.expiries"}, "proposed": {"mm.{q}.proposed_ticket_ids"},
	"claims": {"mm.{q}.claims"}, "changes": {"mm.{q}.changes"}, "outbox": {"mm.{q}.outbox"}, "matched": {"mm.{q}.matched"},
	"stats": {"mm.{q}.stats"}, "director": {"mm.{q}.director"}, "nudges": {"mm.{q}"}, "queues": {"mm.queues"}, "match": {"mm.{q}.match.<match>"},
	"ticket": {"mm.{q}.ticket.<id>"}, "tickets": {"mm.{q}.ticket.<id>"}, "assignment": {"mm.{q}.assign.<id>"},
	"both": {"mm.{q}.ticket.<id>", "mm.{q}.assign.<id>"},
}

// noScripts are users of keys that the page names and that are no scripts.
var noScripts = []string{"position", "life", "listen", "start", "compare", "ready", "contents", "delivered", "admin", "watch", "confirmed"}

func TestPageTellsWhichScriptUsesWhichKey(t *testing.T) {
	t.Parallel()
	rows := map[string]keyRow{}
	for _, row := range keyRows(t) {
		rows[row.key] = row
	}
	known := slices.Clone(noScripts)
	used := map[string][]string{}
	for _, f := range luatest.Scripts(t, "channels", "queues") {
		known = append(known, f.Stem())
		for _, p := range f.Parameters() {
			keys, isKey := rowsOf[p.Name]
			require.True(t, isKey || p.Table == "ARGV", "%s has a key that the page doesn't know: %s", f.Name(), p.Name)
			for _, key := range keys {
				row := rows[key]
				used[key] = append(used[key], f.Stem())
				require.Contains(t, slices.Concat(row.changedBy, row.renewedBy, row.read), f.Stem(), "%s uses %s", f.Name(), key)
				if p.Table == "KEYS" && key != "c.{ch}" && key != "mm.{q}" {
					require.Equal(t, p.Kind, row.kind, "the type of %s", key)
				}
			}
		}
	}
	for key, row := range rows {
		for _, who := range slices.Concat(row.changedBy, row.renewedBy, row.read) {
			require.Contains(t, known, who, key)
			if !slices.Contains(noScripts, who) {
				require.Contains(t, used[key], who, "%s isn't given %s", who, key)
			}
		}
	}
}

func TestPageHasEachScript(t *testing.T) {
	t.Parallel()
	scripts := section(t, "## Scripts") + section(t, "## Scripts of queues")
	headings := regexp.MustCompile("(?m)^### `(\\w+\\.lua)`$").FindAllStringSubmatch(scripts, -1)
	var documented, files []string
	for _, m := range headings {
		documented = append(documented, m[1])
		text := section(t, m[0])
		for _, about := range []string{`half-moved\s+slot`, `out\s+of\s+memory`, `declare`} {
			require.Regexp(t, `(?i)`+about, text, "%s: %s", m[1], about)
		}
	}
	for _, f := range luatest.Scripts(t, "channels", "queues") {
		files = append(files, f.Name())
	}
	require.ElementsMatch(t, files, documented)
}

// keyKinds make a key of a channel from names that are valid.
var keyKinds = map[string]func(ch channelKeys, name string, at clock.Clock) string{
	"clock":   func(ch channelKeys, _ string, _ clock.Clock) string { return ch.clock() },
	"epoch":   func(ch channelKeys, _ string, _ clock.Clock) string { return ch.epoch() },
	"subs":    func(ch channelKeys, _ string, _ clock.Clock) string { return ch.subscribers() },
	"topic":   func(ch channelKeys, _ string, _ clock.Clock) string { return ch.topic() },
	"mark":    func(ch channelKeys, name string, _ clock.Clock) string { return ch.mark(name) },
	"record":  func(ch channelKeys, name string, _ clock.Clock) string { return ch.messageID(name) },
	"message": func(ch channelKeys, _ string, at clock.Clock) string { return ch.message(at) },
}

// hashTag gives what a cluster takes the slot of.
func hashTag(key string) string {
	_, after, _ := strings.Cut(key, "{")
	tag, _, found := strings.Cut(after, "}")
	if !found || tag == "" {
		return key
	}
	return tag
}

func TestKeysOfAChannelShareASlotAndNothingElse(t *testing.T) {
	t.Parallel()
	tricky := rapid.SampledFrom([]string{"clock", "epoch", "subs", "r.clock", "m.1", "mid.1", "r", "m", "mid", "0", "1", "a.clock", "a.m.1"})
	anyName := rapid.OneOf(tricky, names())
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
		k := keyspace{prefix: rapid.SampledFrom([]string{"", "mm1:", "c."}).Draw(t, "prefix")}
		key := func(m made) string { return keyKinds[m.kind](k.channel(m.channel), m.name, m.at) }
		a, b := keys.Draw(t, "a"), keys.Draw(t, "b")
		require.NoError(t, channel.CheckChannel(a.channel))
		require.Equal(t, a.channel, hashTag(key(a)))
		require.True(t, strings.HasPrefix(key(a), k.prefix+"c.{"))
		require.Equal(t, a == b, key(a) == key(b), "%s and %s", key(a), key(b))
	})
}

func TestKeyPrefixStandsInFrontOfEveryKey(t *testing.T) {
	t.Parallel()
	plain, prefixed := builders(""), builders("mm1:")
	for name, key := range plain {
		require.Equal(t, "mm1:"+key, prefixed[name], name)
	}
	ch := keyspace{prefix: "mm1:"}.channel("ch")
	require.Equal(t, ch.markPrefix()+"s", ch.mark("s"))
	require.Equal(t, ch.messagePrefix()+"-7", ch.message(-7))
	require.Equal(t, "mm1:c.{ch}.m.-9007199254740991", ch.message(clock.Min))
	require.Equal(t, []string{ch.clock(), ch.epoch(), ch.mark("s"), ch.subscribers()}, ch.forSubscriber("s"))
}

// TestReadyLeavesOneKey counts what many checks leave behind.
func TestReadyLeavesOneKey(t *testing.T) {
	t.Parallel()
	s, node := openStandalone(t)
	for range 3 {
		require.NoError(t, s.Ready(t.Context()))
	}
	for want, command := range map[string][]string{
		readyKey(s.prefix, s.server):   {"KEYS", s.keys.prefix + "*"},
		readyTopic(s.prefix, s.server): {"PUBSUB", "SHARDCHANNELS", s.keys.prefix + "*"},
	} {
		left, err := node.Do(t, command...).AsStrSlice()
		require.NoError(t, err)
		require.Equal(t, []string{want}, left)
	}
	ends, err := node.Do(t, "PTTL", readyKey(s.prefix, s.server)).AsInt64()
	require.NoError(t, err)
	require.Positive(t, ends)
	require.LessOrEqual(t, ends, readyTTL.Milliseconds())
}
