package records_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/internal/records/site"
)

// hostile are parts that try to break out of a hash tag, or to look like another key.
var hostile = []string{
	"", "ann", "7", "{", "}", "{}", "a}b", "}:{", "%", "%7D", "%25", "%2", "%zz", ":", "a:b", "a:", " ", "\u00a0",
	"\u2028", "\n", "\x00", "\x7f",
	"\xff", "é", "{x}:hash", "*", `o'brien "a\b"`, "limit=20:offset=0:sort=created_at", strings.Repeat("x", 128),
}

func part() *rapid.Generator[string] {
	return rapid.OneOf(rapid.SampledFrom(hostile), rapid.String(),
		rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }))
}

// tables are the kinds of a community site, in both forms of keys.
func tables(t testing.TB) []*records.Table {
	t.Helper()
	table := site.Community().Table
	plain, err := table.Plain()
	require.NoError(t, err)
	return []*records.Table{table, plain}
}

// TestKeys: Key and Parse are inverse, whatever the parts are, and no two kinds share a key.
func TestKeys(t *testing.T) {
	t.Parallel()
	for _, table := range tables(t) {
		rapid.Check(t, func(t *rapid.T) {
			kinds := table.Records()
			k := kinds[rapid.IntRange(0, len(kinds)-1).Draw(t, "kind")]
			var parts []string
			for range k.Parts() {
				parts = append(parts, part().Draw(t, "part"))
			}
			if k.Name == records.MigratedViewsKind.Name {
				parts = []string{"1640995200"} // it is a time; "current" would be another key
			}
			checkKey(t, table, k, parts)
		})
	}
}

// FuzzKeys: as TestKeys, for the kind with the most parts and one whose last part is in braces. Any text that parses is
// the key of its parts.
func FuzzKeys(f *testing.F) {
	for _, text := range hostile {
		f.Add(text, "a", text)
	}
	both := tables(f)
	f.Fuzz(func(t *testing.T, a, b, c string) {
		for i, table := range both {
			checkKey(t, table, records.VerificationKind.In(i == 1), []string{a, b, c})
			checkKey(t, table, site.Kind("shouts").In(i == 1), []string{a})
			for _, k := range table.Records() {
				if parts, ok := k.Parse(a); ok {
					require.Equal(t, a, k.Key(parts...))
				}
			}
		}
	})
}

func checkKey(t require.TestingT, table *records.Table, k *records.Kind, parts []string) {
	key := k.Key(parts...)
	got, ok := k.Parse(key)
	require.True(t, ok, "%q", key)
	require.Equal(t, parts, got) // so different parts have different keys
	require.Same(t, k, table.Of(key), "%q", key)

	before, _, tagged := strings.Cut(k.Pattern, "{")
	if !tagged {
		require.NotContains(t, key, "{")
		return
	}
	tag, _, _ := strings.Cut(strings.TrimPrefix(key, before+"{"), "}")
	require.NotEmpty(t, tag, "Redis would take the whole key")
	for _, brace := range "{}" {
		require.Equal(t, 1, strings.Count(key, string(brace)), "%q", key)
	}
}

// TestQuotes checks that quotes and backslashes in a text of a user are escaped in its key: xargs would remove them.
func TestQuotes(t *testing.T) {
	t.Parallel()
	require.Equal(t, `cache_tag:{topic:%22a%27b%5C}`, records.CacheTagKind.Key(`topic:"a'b\`))
	require.Equal(t, `shouts:{topic=%22a%27b%5C}`, site.Kind("shouts").Key(`topic="a'b\`))
}

// TestLoadKeys: the load key of a cached value is in the value's slot.
func TestLoadKeys(t *testing.T) {
	t.Parallel()
	tag := func(key string) string {
		_, tag, _ := strings.Cut(key, "{")
		tag, _, _ = strings.Cut(tag, "}")
		return tag
	}
	for _, k := range site.Community().Table.Caches() {
		for _, id := range append([]string{"o'brien"}, hostile...) {
			load := k.LoadKey(id)
			require.Equal(t, tag(k.Key(id)), tag(load), "%s %q", k.Name, id)
			parts, ok := records.CacheLoadKind.Parse(load)
			require.True(t, ok, "%s", load)
			require.Equal(t, []string{id, k.Name}, parts)
			parts, ok = records.CacheLoadKind.In(true).Parse(k.In(true).LoadKey(id))
			require.True(t, ok, "%s", id)
			require.Equal(t, []string{id, k.Name}, parts)
		}
	}
}

func TestKey(t *testing.T) {
	t.Parallel()
	tests := []struct {
		kind  *records.Kind
		parts []string
		want  string
	}{
		{records.SessionKind, []string{"ann", "00ff"}, "session:{ann}:00ff"},
		{records.SessionKind, []string{"a:b", "00"}, "session:{a:b}:00"},
		{records.SessionKind, []string{"a}:{b", "00"}, "session:{a%7D:%7Bb}:00"},
		{records.UserSessionsKind, []string{"анна é"}, "user_sessions:{анна%20é}"},
		{records.VerificationKind, []string{"7", "a:b", "c:d"}, "verification:{7}:a%3Ab:c:d"},
		{site.Kind("shouts"), []string{"limit=20:offset=0:sort=created_at"},
			"shouts:{limit=20:offset=0:sort=created_at}"},
		{site.Kind("search"), []string{"a b%"}, "search_cache:{a%20b%25}"},
		{site.Kind("search"), []string{"a\u00a0b\u2028"}, "search_cache:{a%C2%A0b%E2%80%A8}"},
		{site.Kind("topic-shouts"), []string{""}, "topic_shouts_{%}"},
		{site.Kind("search"), []string{`o'brien "a\b"`}, "search_cache:{o%27brien%20%22a%5Cb%22}"},
		{site.Kind("shouts"), []string{"author=o'brien"}, "shouts:{author=o%27brien}"},
		{site.Kind("author"), []string{"o'brien"}, "author:id:{o'brien}"},
		{records.SettingKind, []string{"\xff\n"}, "env_vars:{%FF%0A}"},
		{records.SettingsKind, nil, "env_vars"},
	}
	for _, tt := range tests {
		require.Equal(t, tt.want, tt.kind.Key(tt.parts...))
		parts, ok := tt.kind.Parse(tt.want)
		require.True(t, ok, tt.want)
		require.Equal(t, tt.parts, parts)
		require.Same(t, tt.kind, site.Community().Table.Of(tt.want))
	}
	for _, foreign := range []string{
		"", "session:{ann}", "session:{ann}:", "session:{}:00", "session:{a%61}:00", "session:{a%7d}:00",
		"session:{a%7}:00", "session:{a", "env_vars:", "x",
		"session:7:00", "session:7:eyJh.eyJi.x", "user_sessions:7", "7-ann-eyJh.eyJi.x", "topic_shouts_7",
		"viewed:{7}:x", "viewed:{7} ", "search_cache:{o'brien}", "author:id:{o%27brien}",
	} {
		require.Nil(t, site.Community().Table.Of(foreign), "%q", foreign)
	}
	require.Panics(t, func() { records.SessionKind.Key("ann") })
}

// TestPlainKeys: they are as Discours.io writes them.
func TestPlainKeys(t *testing.T) {
	t.Parallel()
	table := tables(t)[1]
	for want, parts := range map[string][]string{
		"session:123:00ff":               {"session", "123", "00ff"},
		"user_sessions:a%7Bb%7D é":       {"user-sessions", "a{b} é"},
		"oauth_access:a%3Ab:google":      {"oauth-access", "a:b", "google"},
		"oauth_state:a1b2":               {"oauth-state", "a1b2"},
		"verification:7:email_change:ff": {"verification", "7", "email_change", "ff"},
		"env_vars:JWT_SECRET":            {"setting", "JWT_SECRET"},
		"env_vars":                       {"settings"},
		"author:id:1:2":                  {"author", "1:2"},
		"author:slug:o'brien":            {"author-slug", "o'brien"},
		"shouts:limit=20:offset=0":       {"shouts", "limit=20:offset=0"},
		"topic_shouts_5":                 {"topic-shouts", "5"},
		`search_cache:"чай" 100%25`:      {"search", `"чай" 100%`},
		"migrated_views_1640995200":      {"migrated-views", "1640995200"},
		"migrated_views_current":         {"migrated-current"},
		"migrated_views_slugs":           {"migrated-slugs"},
		"viewed:123":                     {"viewed", "123"},
		"lock:resize:image:7":            {"lock", "resize", "image:7"},
		"metrics:cache_hits:daily:86400": {"metric", "cache_hits", "daily:86400"},
		"pending_copies:all":             {"pending-copies"},
	} {
		k := table.Of(want)
		require.NotNil(t, k, "%q", want)
		require.Equal(t, parts[0], k.Name)
		require.Equal(t, want, k.Key(parts[1:]...))
	}
	for _, foreign := range []string{"session:{123}:00ff", "viewed:{7}", "viewed:%37", "search_cache:100%", "lock:resize",
		"c.7.clock", "7-ann-eyJh"} {
		require.Nil(t, table.Of(foreign), "%q", foreign)
	}
	require.Equal(t, "channel-clock", table.Of("c.{a}.clock").Name)
	require.Equal(t, "queue-definitions", table.Of("mm.queues").Name)
}

// TestKinds: the table is complete: a temporary kind has a TTL, a permanent one a reason, and each key belongs to one
// kind.
func TestKinds(t *testing.T) {
	t.Parallel()
	names, starts := make(map[string]bool), make(map[string]string)
	for _, k := range site.Community().Table.All() {
		require.False(t, names[k.Name], k.Name)
		names[k.Name] = true
		require.NotEqual(t, k.TTL == 0, k.Why == "", "%s: a TTL, or why it has none", k.Name)
		require.Positive(t, k.MaxBytes, k.Name)
		require.NotEmpty(t, k.Type, k.Name)
		require.NotEmpty(t, k.Instance, k.Name)
		start, _, _ := strings.Cut(k.Pattern, "<")
		if start != k.Pattern && slices.Contains(site.Community().Table.Records(), k) {
			starts[k.Name] = start
		}
	}
	for name, start := range starts {
		for other, longer := range starts {
			require.True(t, name == other || !strings.HasPrefix(longer, start), "%s and %s", name, other)
		}
	}
}

// TestOthers: the kinds besides those of records are those of docs/redis, which tests compare with the code that makes
// the keys.
func TestOthers(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../../docs/redis/*.md")
	require.NoError(t, err)
	var page []byte
	for _, path := range pages {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		page = append(page, text...)
	}
	var documented, listed []string
	short := strings.NewReplacer("{ch}", "{<channel>}", "{q}", "{<queue>}", "{name}", "{<name>}", "{cache}",
		"{<cache>}")
	for _, row := range regexp.MustCompile(
		"(?m)^\\| `((?:c|mm|sc|lease|access|tidemark)\\.[^`]*)` \\| (string|hash|set|zset|stream) \\| .*? \\| (never)?").FindAllStringSubmatch(string(page), -1) {
		documented = append(documented, short.Replace(row[1])+" "+row[2]+" "+row[3])
	}
	for _, k := range records.Others {
		ends := ""
		if k.TTL == 0 {
			ends = "never"
		}
		listed = append(listed, k.Pattern+" "+string(k.Type)+" "+ends)
	}
	require.ElementsMatch(t, documented, listed)
	table := site.Community().Table
	require.Equal(t, "channel-message", table.Of("c.{a.b:c}.m.-5").Name)
	require.Equal(t, "ticket", table.Of("mm.{duel}.ticket.01KAJ2M3V7Q8ZJ4R5T6Y7W8X9D.duel").Name)
}

func TestIDs(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"a", "анна", "a:b", "{}", " ", "%", strings.Repeat("x", 128)} {
		require.NoError(t, records.CheckID("user", good), "%q", good)
	}
	for bad, want := range map[string]string{
		"":                      "user is empty",
		strings.Repeat("é", 65): "user has 130 bytes, at most 128 are allowed",
		"a\xff":                 "user isn't valid UTF-8",
		"a\n":                   "user has the control character U+000A at byte 1",
		"\u0085":                "user has the control character U+0085 at byte 0",
	} {
		err := records.CheckID("user", bad)
		require.ErrorIs(t, err, &fault.Error{Slug: fault.SlugInvalidID}, "%q", bad)
		require.EqualError(t, err, want)
		var f *fault.Error
		require.ErrorAs(t, err, &f)
		require.Equal(t, "user", f.Field)
	}
	require.NoError(t, records.CheckQuery("query", strings.Repeat("x", 512)))
	require.Error(t, records.CheckQuery("query", strings.Repeat("x", 513)))
}
