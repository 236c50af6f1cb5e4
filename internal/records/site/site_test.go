package site_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/internal/records/locks"
	"github.com/tidemark-dev/tidemark/internal/records/site"
)

// priced is the schema of objects with a price.
type priced struct{}

func (priced) Check(content []byte) (field string, err error) {
	if !strings.Contains(string(content), `"price"`) {
		return "/price", errors.New("missing")
	}
	return "", nil
}

var errNoFile = errors.New("no such file")

func open(name string) (channel.Schema, error) {
	if name != "priced.json" {
		return nil, errNoFile
	}
	return priced{}, nil
}

func TestParse(t *testing.T) {
	t.Parallel()
	s, err := site.Parse([]byte(`{"caches": [
		{"name": "product", "key": "product:{<id>}", "ttl": "1h", "schema": "priced.json", "maxBytes": "1KiB",
			"secret": "true"},
		{"name": "page", "key": "page:{<id>}", "value": "text", "maxBytes": 64, "description": "HTML"},
		{"name": "found", "key": "found:{<q>}", "ids": "search", "ttl": "1m", "prefixes": true, "tags": ["shelf"]},
		{"name": "cart", "key": "cart:{<user>}:<item>"},
		{"name": "liked", "key": "liked:{<user>}", "value": "ids"},
		{"name": "likes", "key": "likes:{<product>}", "value": "ids"}
	], "notifications": {"follow": [{"name": "product", "follows": "liked", "followers": "likes"}]},
		"locks": [{"name": "sort", "ttl": "1m", "maxTTL": "2m"}],
		"statistics": [{"name": "orders", "fields": ["paid"]}], "metrics": []}`), open)
	require.NoError(t, err)
	kind := func(name string) *records.Kind {
		k, err := s.Table.Cache(name)
		require.NoError(t, err)
		return k
	}
	product, page, found := kind("product"), kind("page"), kind("found")
	require.Equal(t, "product:{7}", product.Key("7"))
	require.Equal(t, time.Hour, product.TTL)
	require.True(t, product.Secret)
	require.Equal(t, 1<<20, found.MaxBytes)
	require.Equal(t, "HTML", page.Form)
	require.True(t, product.JSON() && found.JSON() && !page.JSON())
	require.True(t, found.Prefixes && !product.Prefixes)

	for _, c := range []struct {
		kind        *records.Kind
		value       string
		field, want string
	}{
		{product, `{"price":1}`, "", ""},
		{product, `[]`, "/price", "the value doesn't fit the kind product: missing"},
		{product, `{"price":1`, "", "the value doesn't fit the kind product: it isn't JSON at byte 10"},
		{product, `{"price":1,"price":2}`, "", "the value doesn't fit the kind product: it isn't JSON at byte 11"},
		{product, `{"price":"` + strings.Repeat("9", 1<<10) + `"}`, "",
			"the value has 1036 bytes, one of the kind product at most 1024"},
		{page, "any text", "", ""},
		{page, "", "", "the value doesn't fit the kind page: it is empty"},
		{page, "\xff", "", "the value doesn't fit the kind page: it isn't UTF-8"},
		{found, `null`, "", ""},
	} {
		err := c.kind.Check([]byte(c.value))
		if c.want == "" {
			require.NoError(t, err, c.value)
			continue
		}
		var f *fault.Error
		require.ErrorAs(t, err, &f)
		require.Equal(t, c.want, f.Detail)
		require.Equal(t, c.field, f.Field)
	}
	id, err := found.ID("  GO :x=1:shelf=b:shelf=a")
	require.NoError(t, err)
	require.Equal(t, []string{"shelf:a", "shelf:b"}, found.TagsOf(id))
	for _, id := range []string{"", "ann", ":7", "ann:"} {
		_, err := kind("cart").ID(id)
		require.ErrorIs(t, err, &fault.Error{Slug: fault.SlugInvalidID}, id)
	}
	id, err = kind("cart").ID("ann:7:8")
	require.NoError(t, err)
	require.Equal(t, "cart:{ann}:7:8", kind("cart").KeyOf(id))
	_, err = kind("cart").ID("ann")
	require.EqualError(t, err, "id must be the user, a colon and the item")
	require.Equal(t, "liked", s.Sources[0].Follows.Name)
	plain, err := s.Plain()
	require.NoError(t, err)
	found, err = plain.Table.Cache("cart")
	require.NoError(t, err)
	require.Equal(t, "cart:ann:7", found.KeyOf("ann:7"))
	require.Same(t, found, plain.Table.Of("cart:ann:7"))
	require.Equal(t, s.Sources[0].Follows.In(true), plain.Sources[0].Follows)
	require.True(t, s.Sources.Followed("notifications:product:7"))
	require.False(t, s.Sources.Followed("notifications:topic:7"))

	require.Equal(t, locks.Operations{{Name: "sort", TTL: time.Minute, MaxTTL: 2 * time.Minute}}, s.Operations)
	require.Equal(t, records.StatsNames{Entities: []records.StatsEntity{{Name: "orders", Fields: []string{"paid"}}},
		Metrics: []string{}}, s.Statistics)

	none, err := site.Parse([]byte(`{}`), open)
	require.NoError(t, err)
	require.Nil(t, none.Operations)
	require.Equal(t, records.StatsNames{}, none.Statistics)
	require.Empty(t, none.Table.Caches())
	require.Empty(t, none.Sources)
}

// TestCommunity holds the kinds of a community site: their keys and values are in the Redis of installations.
func TestCommunity(t *testing.T) {
	t.Parallel()
	var lines []string
	for _, k := range site.Community().Table.Caches() {
		lines = append(lines, fmt.Sprintf("%s %s %s %d %s %s %v secret=%t quotes=%t prefixes=%t schema=%t %s",
			k.Name, k.Pattern, k.TTL, k.MaxBytes, k.Values, k.IDs, k.Tags, k.Secret, k.Quotes, k.Prefixes,
			k.Schema != nil, k.Form))
	}
	const entity, list = "secret=false quotes=false prefixes=false schema=false ",
		"secret=false quotes=true prefixes=true schema=false "
	require.Equal(t, []string{
		"author author:id:{<id>} 0s 1048576 author plain [] " + entity + "JSON",
		"author-slug author:slug:{<slug>} 0s 1048576 id plain [] " + entity + "ID of the author",
		"author-followers author:followers:{<id>} 0s 1048576 ids plain [] " + entity + "JSON array of IDs",
		"author-follows-topics author:follows-topics:{<id>} 0s 1048576 ids plain [] " + entity + "JSON array of IDs",
		"author-follows-authors author:follows-authors:{<id>} 0s 1048576 ids plain [] " + entity + "JSON array of IDs",
		"author-follows-shouts author:follows-shouts:{<id>} 0s 1048576 ids plain [] " + entity + "JSON array of IDs",
		"topic topic:id:{<id>} 0s 1048576 topic plain [] " + entity + "JSON",
		"topic-slug topic:slug:{<slug>} 0s 1048576 topic plain [] " + entity + "JSON",
		"topic-authors topic:authors:{<id>} 0s 1048576 ids plain [] " + entity + "JSON array of IDs",
		"topic-followers topic:followers:{<id>} 0s 1048576 ids plain [] " + entity + "JSON array of IDs",
		"shout-followers shout:followers:{<id>} 0s 1048576 ids plain [] " + entity + "JSON array of IDs",
		"shouts shouts:{<params>} 5m0s 1048576 shouts list [author topic] " + list + "JSON",
		"topic-shouts topic_shouts_{<id>} 5m0s 1048576 shouts plain [topic] " + list + "JSON",
		"search search_cache:{<query>} 10m0s 1048576 results search [] " + list + "JSON",
	}, lines)
}

func TestRefusedTables(t *testing.T) {
	t.Parallel()
	const a, ids = `{"name": "a", "key": "a:{<id>}"}`, `{"name": "l", "key": "l:{<id>}", "value": "ids"}`
	for _, c := range []struct{ text, want string }{
		{``, `kinds: not a table of kinds, such as {"caches": [{"name": "product"`},
		{`[]`, "kinds: not a table of kinds"},
		{`{"cache": []}`, "kinds.cache: unknown member (known: caches, notifications, locks, statistics, metrics)"},
		{`{"caches": {}}`, "kinds.caches: must be an array"},
		{`{"caches": [{}]}`, `kinds.caches[0].name: is ""`},
		{`{"caches": [` + a + `, {"name": "b", "key": "b"}]}`, `kinds.caches[1].key: is "b", it must be`},
		{`{"caches": [` + a + `, {"name": "b", "keys": "b"}]}`, "kinds.caches[1].keys: unknown member (known: name,"},
		{`{"caches": [` + a + `, ` + a + `]}`, "kinds.caches[1].name: a is the name of two kinds"},
		{`{"caches": [` + a + `, {"name": "b", "key": "a:{<x>}"}]}`,
			"kinds.caches[1].key: a:{<x>} has keys of a, which is a:{<id>}"},

		{`{"caches": [{"name": "b", "key": "mm.{<id>}"}]}`,
			"kinds.caches[0].key: mm.{<id>} has keys of queue-tickets"},
		{`{"caches": [` + strings.Repeat(a+",", 100) + a + `]}`,
			"kinds.caches: has 101 kinds, at most 100 are allowed"},

		{kind(`"ttl": "5"`), `kinds.caches[0].ttl: "5" isn't a duration, such as 30s, 5m or 24h`},
		{kind(`"ttl": "-5s"`), `kinds.caches[0].ttl: "-5s" isn't a duration`},
		{kind(`"ttl": 5`), "kinds.caches[0].ttl: must be a string"},
		{kind(`"ttl": "1ms"`), "kinds.caches[0].ttl: is 1ms, it must be from 1s"},
		{kind(`"maxBytes": "2MiB"`), "kinds.caches[0].maxBytes: is 2097152, it must be from 1 to 1048576"},
		{kind(`"maxBytes": "1KB"`), `kinds.caches[0].maxBytes: "1KB" isn't a number of bytes`},
		{kind(`"maxBytes": 0`), `kinds.caches[0].maxBytes: "0" isn't a number of bytes`},
		{kind(`"value": "html"`),
			`kinds.caches[0].value: is "html", it must be author, id, ids, json, results, shouts, text, topic`},
		{kind(`"ids": "uuid"`), `kinds.caches[0].ids: is "uuid", it must be list, plain, search`},
		{`{"caches": [{"name": "a", "key": "a:{<b>}:<c>", "ids": "list"}]}`,
			"kinds.caches[0].ids: is list, but IDs are an owner"},
		{kind(`"tags": ["a:b"], "ttl": "1h"`), "kinds.caches[0].tags: must be at most 8 names"},
		{kind(`"tags": [` + strings.Repeat(`"a",`, 8) + `"a"]`), "kinds.caches[0].tags: must be at most 8 names"},
		{kind(`"tags": ["a"]`), "kinds.caches[0].ttl: is needed, of at most 720h0m0s"},
		{kind(`"prefixes": true, "ttl": "721h"`), "kinds.caches[0].ttl: is needed, of at most 720h0m0s"},
		{kind(`"schema": "no.json"`), "kinds.caches[0].schema: no such file"},
		{kind(`"schema": "priced.json", "value": "text"`),
			"kinds.caches[0].schema: is set, but values have the form text"},
		{kind(`"description": "a\nb"`), "kinds.caches[0].description: must be a line"},

		{`{"locks": [{"name": "a", "ttl": "2h"}]}`, "kinds.locks[0].ttl: is 2h0m0s, it must be from 1s to 1h0m0s"},
		{`{"statistics": [{"name": ""}]}`, "kinds.statistics[0]: name is empty"},
		{`{"metrics": ["a", "a"]}`, "kinds.metrics[1]: a is there twice"},

		{follow(ids, "a b", "l", "l"), `kinds.notifications.follow[0].name: is "a b", it must be`},
		{follow(ids, "a", "none", "l"),
			`kinds.notifications.follow[0].follows: is "none", it must be one of caches whose value is ids`},
		{follow(ids+","+a, "a", "l", "a"), `kinds.notifications.follow[0].followers: is "a", it must be one of`},
	} {
		_, err := site.Parse([]byte(c.text), open)
		require.ErrorContains(t, err, c.want, c.text)
	}
}

// kind returns a table with one kind that has more members.
func kind(members string) string {
	return `{"caches": [{"name": "a", "key": "a:{<id>}", ` + members + `}]}`
}

func follow(caches, name, follows, followers string) string {
	return `{"caches": [` + caches + `], "notifications": {"follow": [{"name": "` + name + `", "follows": "` + follows +
		`", "followers": "` + followers + `"}]}}`
}
