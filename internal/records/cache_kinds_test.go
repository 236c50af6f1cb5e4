package records_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/internal/records/site"
)

// The values of Discours.io.
const (
	author = `{"id":123,"email":"user@example.com","name":"Имя Пользователя","slug":"username","pic":"https://example.com/avatar.jpg",` +
		`"bio":"Описание автора","email_verified":true,"created_at":1640995200,"updated_at":1640995200,"last_seen":1640995200,` +
		`"stat":{"topics":15,"authors":8,"shouts":42}}`
	topic = `{"id":5,"title":"Название темы","slug":"tema-slug","description":"Описание темы","pic":"https://example.com/topic.jpg",` +
		`"community":1,"created_at":1640995200,"updated_at":1640995200,"stat":{"shouts":150,"authors":25,"followers":89}}`
	results = `{"query":"поисковый запрос","results":[{"type":"shout","id":123,"title":"Заголовок публикации","slug":"publication-slug",` +
		`"score":0.95}],"total":15,"cached_at":1640995200}`
)

// parsed returns a T that is decoded from text.
func parsed[T any](t *testing.T, text string) (v T) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), &v))
	return v
}

// again returns the JSON of a T that is decoded from text.
func again[T any](t *testing.T, text string) string {
	t.Helper()
	out, err := json.Marshal(parsed[T](t, text))
	require.NoError(t, err)
	return string(out)
}

// TestNumbersOfPython: a value with numbers as Python's json writes floats has the form of its kind.
func TestNumbersOfPython(t *testing.T) {
	t.Parallel()
	kinds := site.Community().Table
	for name, value := range map[string]string{
		"author": `{"id":7.0,"created_at":1640995200.5,"updated_at":1640995200.0,"stat":{"shouts":1.0}}`,
		"topic":  `{"id":5,"community":1.0,"created_at":1640995200.25,"stat":{"followers":2.0}}`,
		"search": `{"query":"go","results":[{"id":1.0,"score":1}],"total":15.0,"cached_at":1640995200.75}`,
		"shouts": `[7.0,8]`, "author-followers": `[1.0,2.0]`,
	} {
		kind, err := kinds.Cache(name)
		require.NoError(t, err)
		require.NoError(t, kind.Check([]byte(value)), name)
	}
	kind, err := kinds.Cache("author")
	require.NoError(t, err)
	for _, wrong := range []string{`{"created_at":"1640995200"}`, `{"created_at":1e300}`, `{"id":1.5}`} {
		require.Error(t, kind.Check([]byte(wrong)), wrong)
	}
}

// TestForms decodes and encodes the values of Discours.io: not a byte changes.
func TestForms(t *testing.T) {
	t.Parallel()
	require.Equal(t, author, again[records.Author](t, author))
	require.Equal(t, topic, again[records.Topic](t, topic))
	require.Equal(t, results, again[records.Results](t, results))
	require.Equal(t, `[{"id":1,"own":[2]}]`, again[records.Shouts](t, `[{"id":1,"own":[2]}]`))
	const ids = `[123,"ann","007","9007199254740992",9007199254740991,"a\"b"]`
	require.Equal(t, ids, again[[]records.ID](t, ids))
	require.Equal(t, `[7]`, again[[]records.ID](t, `["7"]`))
	require.Equal(t, `[7]`, again[[]records.ID](t, `[7.0]`))
	require.Equal(t, `[7,"ann",{"id":1}]`, again[records.Shouts](t, `[7,"ann",{"id":1}]`))
	for _, wrong := range []string{`[-1]`, `[1.5]`, `[1e3]`, `[null]`, `[true]`, `[{}]`, `[""]`, `["\u0000"]`,
		`["` + strings.Repeat("x", 129) + `"]`} {
		require.Error(t, json.Unmarshal([]byte(wrong), new([]records.ID)), wrong)
	}
}

// TestCacheKinds checks that there is a kind for each key of Discours.io's caches, and which values it accepts.
func TestCacheKinds(t *testing.T) {
	t.Parallel()
	const ids, shouts = `[1,"ann"]`, ` [{"id":1}] `
	for name, c := range map[string]struct{ key, id, value, wrong string }{
		"author":                 {"author:id:{123}", "123", author, ids},
		"author-slug":            {"author:slug:{username}", "username", "123", "\x00"},
		"author-followers":       {"author:followers:{123}", "123", ids, `{}`},
		"author-follows-topics":  {"author:follows-topics:{123}", "123", ids, `null`},
		"author-follows-authors": {"author:follows-authors:{123}", "123", ids, `[[]]`},
		"author-follows-shouts":  {"author:follows-shouts:{123}", "123", ids, `[1] 2`},
		"topic":                  {"topic:id:{5}", "5", topic, `{"id":5,"id":6}`},
		"topic-slug":             {"topic:slug:{tema-slug}", "tema-slug", topic, `{"id":{}}`},
		"topic-authors":          {"topic:authors:{5}", "5", ids, ``},
		"topic-followers":        {"topic:followers:{5}", "5", ids, `[1`},
		"shout-followers":        {"shout:followers:{7}", "7", ids, `[""]`},
		"shouts":                 {"shouts:{author=123:limit=10}", "limit=10:author=123", shouts, `[true]`},
		"topic-shouts":           {"topic_shouts_{5}", "5", shouts, `[null]`},
		"search": {"search_cache:{поисковый%20запрос}", " Поисковый запрос", results,
			"{\"query\":\"\xff\"}"},
	} {
		k, err := site.Community().Table.Cache(name)
		require.NoError(t, err)
		id, err := k.ID(c.id)
		require.NoError(t, err)
		require.Equal(t, c.key, k.Key(id))
		require.NoError(t, k.Check([]byte(c.value)), name)
		require.ErrorIs(t, k.Check([]byte(c.wrong)), &fault.Error{Slug: fault.SlugInvalidValue}, name)
		require.ErrorIs(t, k.Check(make([]byte, k.MaxBytes+1)), &fault.Error{Slug: fault.SlugValueTooLarge}, name)
		require.Equal(t, records.Cache, k.Instance)
		for _, id := range []string{"", "\xff", "a\x1b"} {
			_, err := k.ID(id)
			require.ErrorIs(t, err, &fault.Error{Slug: fault.SlugInvalidID}, name)
		}
	}
	require.Len(t, site.Community().Table.Caches(), 14)
	for _, name := range []string{"", "session", "setting", "Author", "cache-load", "cache-tag"} {
		_, err := site.Community().Table.Cache(name)
		require.ErrorIs(t, err, records.ErrNoKind, name)
	}
}

// TestTags checks which lists change with an author or a topic.
func TestTags(t *testing.T) {
	t.Parallel()
	long := "author=" + strings.Repeat("x", 200)
	for _, c := range []struct {
		kind, id string
		tags     []string
		prefixes bool
	}{
		{"shouts", "limit=10:author=123:topic=5", []string{"author:123", "topic:5"}, true},
		{"shouts", "topic=b:topic=a::b:topic=", []string{"topic:", "topic:a:b", "topic:b"}, true},
		{"shouts", long, nil, true},
		{"shouts", long + ":" + long + ":" + long, nil, true},
		{"shouts", strings.Repeat("author=1:", 19) + "author=1", slices.Repeat([]string{"author:1"}, 8), true},
		{"topic-shouts", "5", []string{"topic:5"}, true},
		{"search", "a:topic=5", nil, true},
		{"topic", "5", nil, false},
		{"author-followers", "5", nil, false},
	} {
		k, err := site.Community().Table.Cache(c.kind)
		require.NoError(t, err)
		id, err := k.ID(c.id)
		require.NoError(t, err)
		require.Equal(t, c.tags, k.TagsOf(id), c.id)
		require.Equal(t, c.prefixes, k.Prefixes)
	}
}

// TestRefusedValues checks that errors describe the problem without names of Go types.
func TestRefusedValues(t *testing.T) {
	t.Parallel()
	k, err := site.Community().Table.Cache("author")
	require.NoError(t, err)
	for value, want := range map[string]string{
		`{"stat":{"topics":"x"}}`: `the value doesn't fit the kind author: "/stat/topics" has a wrong form`,
		`{"id":1`:                 `the value doesn't fit the kind author: it isn't JSON at byte 7`,
		`[]`:                      `the value doesn't fit the kind author: it must be an object`,
	} {
		require.EqualError(t, k.Check([]byte(value)), want)
	}
}
