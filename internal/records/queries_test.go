package records_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/internal/records/site"
)

func TestSearchID(t *testing.T) {
	t.Parallel()
	page := url.Values{"offset": {"0"}, "limit": {"10"}}
	for _, c := range []struct {
		text       string
		parameters url.Values
		want       string
	}{
		{"Поисковый  ЗАПРОС ", nil, "поисковый запрос"},
		{"\tЁлка и\u00a0\n ёж", nil, "ёлка и ёж"},
		{"Е\u0308лка и е\u0308ж", nil, "ёлка и ёж"}, // the same, decomposed
		{"\u212a\u212b\u2126", nil, "kåω"},          // signs that are composed to upper-case letters
		{"İ I\u0307", nil, "i i"},
		{"H\u0331 \u1e96", nil, "\u1e96 \u1e96"},
		{"go redis", page, "go redis:limit=10:offset=0"},
		{"go redis:limit=10", nil, "go redis::limit=10"},
		{"a:", url.Values{"b": {":c:", "="}}, "a:::b=::c:::b=="},
		{"12:30", url.Values{"author": {"Ann B"}}, "12::30:author=Ann B"},
	} {
		id, err := records.SearchID(c.text, c.parameters)
		require.NoError(t, err)
		require.Equal(t, c.want, id)
	}
}

func TestListID(t *testing.T) {
	t.Parallel()
	for want, parameters := range map[string]url.Values{ // those of Discours.io
		"limit=20:offset=0:sort=created_at": {"sort": {"created_at"}, "limit": {"20"}, "offset": {"0"}},
		"author=123:limit=10":               {"limit": {"10"}, "author": {"123"}},
		"featured=true:topic=5":             {"topic": {"5"}, "featured": {"true"}},
	} {
		id, err := records.ListID(parameters)
		require.NoError(t, err)
		require.Equal(t, want, id)
		require.Equal(t, "shouts:{"+want+"}", site.Kind("shouts").Key(id))
	}
	id, err := records.CanonicalListID("topic=5:featured=true")
	require.NoError(t, err)
	require.Equal(t, "featured=true:topic=5", id)
}

func TestInvalidQueries(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", records.MaxParameterBytes+1)
	for name, text := range map[string]string{
		"empty": "", "blank": " \t\n", "long": long, "not UTF-8": "\xff", "control": "a\x00b", "escape": "\x1b[2J",
		"no parameter": "12:30", "end": "a:", "no name": "a:=1", "name": "a:b c=1", "value": "a:b=\x00",
		"invalid value": "a:b=\xff",
		"many":          "a" + strings.Repeat(":b=1", 65),
	} {
		_, err := records.CanonicalSearchID(text)
		require.ErrorIs(t, err, records.ErrInvalidQuery, name)
		_, err = records.CanonicalListID(strings.TrimPrefix(text, "a:"))
		require.ErrorIs(t, err, records.ErrInvalidQuery, name)
	}
	_, err := records.SearchID("a", url.Values{"b": {long}})
	require.ErrorIs(t, err, records.ErrInvalidQuery)
}

// TestLongQueries hashes long queries: their IDs are bounded and distinct, also from those of other queries.
func TestLongQueries(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("ж", records.MaxQueryBytes/2)
	fits, err := records.SearchID(text, nil)
	require.NoError(t, err)
	require.Equal(t, text, fits)
	id, err := records.SearchID(text+"а", nil)
	require.NoError(t, err)
	other, err := records.SearchID(text+"б", nil)
	require.NoError(t, err)
	require.NotEqual(t, id, other)
	require.Len(t, id, len("sha256:")+64)
	same, err := records.CanonicalSearchID(id)
	require.NoError(t, err)
	require.Equal(t, id, same)
	written, err := records.SearchID(id, nil)
	require.NoError(t, err)
	require.NotEqual(t, id, written)
}

var (
	texts  = rapid.StringMatching(`[ \t:=aAbжЖёЁе\x{0308}İK%{}]{0,12}`)
	values = rapid.MapOfN(rapid.StringMatching(`[a-c_.]{1,2}`), rapid.SliceOfN(rapid.StringMatching(`[:=aAж {}%]{0,4}`),
		1, 3), 0, 3)
)

// search is a search, and the parts that its ID may depend on.
type search struct{ id, text, parameters string }

func drawSearch(t *rapid.T, text string, parameters url.Values) search {
	id, err := records.SearchID(text, parameters)
	plain, errPlain := records.SearchID(text, nil)
	require.Equal(t, errPlain, err)
	if err != nil {
		t.Skip("a text without words")
	}
	for _, list := range parameters {
		slices.Sort(list)
	}
	return search{id, plain, parameters.Encode()}
}

// TestQueriesDontCollide compares searches: they have the same ID only if they are equal after normalization.
func TestQueriesDontCollide(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text, parameters := texts.Draw(t, "text"), url.Values(values.Draw(t, "parameters"))
		search := drawSearch(t, text, parameters)
		if rapid.Bool().Draw(t, "other text") {
			text = texts.Draw(t, "text")
		} else {
			text = " " + strings.ReplaceAll(text, " ", "\t ")
		}
		if rapid.Bool().Draw(t, "other parameters") {
			parameters = values.Draw(t, "parameters")
		} else {
			for _, list := range parameters {
				slices.Reverse(list)
			}
		}
		other := drawSearch(t, text, parameters)
		require.Equal(t, search.text == other.text && search.parameters == other.parameters, search.id == other.id, "%+v %+v",
			search, other)
	})
}

// FuzzCanonicalID checks arbitrary IDs from clients: an ID is its own canonical form, is short, and has a key of its
// own.
func FuzzCanonicalID(f *testing.F) {
	for _, id := range []string{"Поисковый  запрос", "go:limit=10:offset=0", "a::b:c=::", "::::x:=",
		"sha256:" + strings.Repeat("a", 64), "\u212a:İ=1"} {
		f.Add(id)
	}
	canonical := map[*records.Kind]func(string) (string, error){
		site.Kind("search"): records.CanonicalSearchID, site.Kind("shouts"): records.CanonicalListID,
	}
	f.Fuzz(func(t *testing.T, text string) {
		for kind, canonical := range canonical {
			id, err := canonical(text)
			if err != nil {
				require.ErrorIs(t, err, records.ErrInvalidQuery)
				continue
			}
			again, err := canonical(id)
			require.NoError(t, err)
			require.Equal(t, id, again)
			require.NoError(t, records.CheckQuery("id", id))
			parts, ok := kind.Parse(kind.Key(id))
			require.True(t, ok)
			require.Equal(t, []string{id}, parts)
		}
	})
}
