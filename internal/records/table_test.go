package records_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/records"
)

// cached returns a kind of cached values.
func cached(t *testing.T, name, pattern string) *records.Kind {
	t.Helper()
	k, err := records.NewCache(records.Kind{Name: name, Pattern: pattern, MaxBytes: 1})
	require.NoError(t, err)
	return k
}

func TestNewCache(t *testing.T) {
	t.Parallel()
	k, err := records.NewCache(records.Kind{Name: "product-2", Pattern: "shop/product.{<id>}:v2", TTL: time.Hour,
		MaxBytes: 64 << 10, Secret: true, Form: "JSON"})
	require.NoError(t, err)
	require.Equal(t, "shop/product.{a%7Db:c}:v2", k.Key("a}b:c"))
	require.Equal(t, records.Cache, k.Instance)
	require.Equal(t, records.String, k.Type)
	require.Empty(t, k.Why)
	require.NotEmpty(t, cached(t, "forever", "f:{<id>}").Why)

	long := strings.Repeat("p", 124)
	good := records.Kind{Name: "product", Pattern: "product:{<id>}", MaxBytes: 1}
	for want, change := range map[string]func(*records.Kind){
		`name: is "", it must be words`:           func(k *records.Kind) { k.Name = "" },
		`name: is "Product", it must be`:          func(k *records.Kind) { k.Name = "Product" },
		`name: is "a--b", it must be`:             func(k *records.Kind) { k.Name = "a--b" },
		`name: is "a:b", it must be`:              func(k *records.Kind) { k.Name = "a:b" },
		`name: is "aaaa`:                          func(k *records.Kind) { k.Name = strings.Repeat("a", 65) },
		`key: is "", it must be a prefix and a `:  func(k *records.Kind) { k.Pattern = "" },
		`key: is "product:<id>", it must be`:      func(k *records.Kind) { k.Pattern = "product:<id>" },
		`key: is "{<id>}", it must be`:            func(k *records.Kind) { k.Pattern = "{<id>}" },
		`key: is "p:{id}", it must be`:            func(k *records.Kind) { k.Pattern = "p:{id}" },
		`key: is "p:{<a>}:<b>:<c>", it must be`:   func(k *records.Kind) { k.Pattern = "p:{<a>}:<b>:<c>" },
		`key: is "p:{<a>}.<b>", it must be`:       func(k *records.Kind) { k.Pattern = "p:{<a>}.<b>" },
		`key: is "p:{<a>}{<b>}", it must be`:      func(k *records.Kind) { k.Pattern = "p:{<a>}{<b>}" },
		`key: is "p {<a>}", it must be`:           func(k *records.Kind) { k.Pattern = "p {<a>}" },
		`key: is "p*:{<a>}", it must be`:          func(k *records.Kind) { k.Pattern = "p*:{<a>}" },
		"of at most 128 letters":                  func(k *records.Kind) { k.Pattern = long + "{<a>}" },
		"ttl: is 999ms, it must be from 1s to 87": func(k *records.Kind) { k.TTL = 999 * time.Millisecond },
		"ttl: is 8761h0m0s, it must be from 1s":   func(k *records.Kind) { k.TTL = 8761 * time.Hour },
		"maxBytes: is -1, it must be from 1 to":   func(k *records.Kind) { k.MaxBytes = -1 },
		"maxBytes: is 1048577, it must be from":   func(k *records.Kind) { k.MaxBytes = 1<<20 + 1 },
	} {
		bad := good
		change(&bad)
		_, err := records.NewCache(bad)
		require.ErrorContains(t, err, want)
	}
}

// TestOwned: IDs of a kind with owners are an owner and a name, and each has a key of its own with the owner as its
// tag.
func TestOwned(t *testing.T) {
	t.Parallel()
	cart, product := cached(t, "cart", "cart:{<user>}:<item>"), cached(t, "product", "product:{<id>}")
	require.True(t, cart.Owned() && cart.IsCached() && product.IsCached())
	require.False(t, product.Owned() || records.CacheLoadKind.IsCached())
	for id, key := range map[string]string{
		"ann:7": "cart:{ann}:7", "ann:7:8": "cart:{ann}:7:8", "a}b:{7}": "cart:{a%7Db}:%7B7%7D",
		"é:a b": "cart:{é}:a%20b",
	} {
		require.Equal(t, key, cart.KeyOf(id))
		got, ok := cart.IDOf(key)
		require.True(t, ok)
		require.Equal(t, id, got)
		got, ok = product.IDOf(product.KeyOf(id))
		require.True(t, ok)
		require.Equal(t, id, got)
	}
	for _, foreign := range []string{"cart:{a:b}:7", "cart:{ann}", "cart:{ann}:", "product:{1}"} {
		_, ok := cart.IDOf(foreign)
		require.False(t, ok, foreign)
	}
	_, ok := records.CacheLoadKind.IDOf("cache_load:{1}:author")
	require.False(t, ok)
}

// TestTable: each key has one kind, whatever the kinds of a site are.
func TestTable(t *testing.T) {
	t.Parallel()
	product, old := cached(t, "product", "product:{<id>}"), cached(t, "product-old", "product:{<id>}:old")
	table, err := records.NewTable(product, old)
	require.NoError(t, err)
	for key, want := range map[string]*records.Kind{
		"product:{1}": product, "product:{1}:old": old, "product:{1}:new": nil, "product:{}": nil, "product:1": nil,
		"session:{ann}:00": records.SessionKind, "env_vars": records.SettingsKind, "author:id:{1}": nil,
	} {
		if want == nil {
			require.Nil(t, table.Of(key), key)
		} else {
			require.Same(t, want, table.Of(key), key)
		}
	}
	require.Equal(t, "lease", table.Of("lease.{x}.holder").Name)
	found, err := table.Cache("product")
	require.NoError(t, err)
	require.Same(t, product, found)
	for _, name := range []string{"session", "author", ""} {
		_, err := table.Cache(name)
		require.ErrorIs(t, err, records.ErrNoKind)
	}

	for want, k := range map[string]*records.Kind{
		"name: product is the name of two kinds":                   cached(t, "product", "other:{<id>}"),
		"name: session is the name of two kinds":                   cached(t, "session", "other:{<id>}"),
		"name: lease is the name of two kinds":                     cached(t, "lease", "other:{<id>}"),
		"name: unknown is the name of keys of no kind":             cached(t, "unknown", "other:{<id>}"),
		"key: product:{<n>} has keys of product, which is":         cached(t, "other", "product:{<n>}"),
		"key: session:{<id>}:x has keys of session, which is sess": cached(t, "other", "session:{<id>}:x"),
		"key: session:{<id>} has keys of session, which is sessio": cached(t, "other", "session:{<id>}"),
		"key: c.{<id>}.clock has keys of channel-clock, which is ": cached(t, "other", "c.{<id>}.clock"),
		"key: cache_tag:{<id>} has keys of cache-tag, which is ca": cached(t, "other", "cache_tag:{<id>}"),
		"key: access.{<id>} has keys of api-keys, which is access": cached(t, "other", "access.{<id>}"),
		"key: product:{<user>}:<n> has keys of product, which is ": cached(t, "other", "product:{<user>}:<n>"),
	} {
		_, err := records.NewTable(product, k)
		require.ErrorContains(t, err, want)
		var twice *records.DuplicateError
		require.ErrorAs(t, err, &twice)
	}
	var many []*records.Kind
	for i := range records.MaxCaches + 1 {
		many = append(many, cached(t, fmt.Sprint("k", i), fmt.Sprintf("k%d:{<id>}", i)))
	}
	_, err = records.NewTable(many[1:]...)
	require.NoError(t, err)
	_, err = records.NewTable(many...)
	require.EqualError(t, err, "there are 101 kinds of cached values, at most 100 are allowed")
}

// TestPlainTable: a kind of a site whose plain keys could be those of another kind is refused; with braces it isn't.
func TestPlainTable(t *testing.T) {
	t.Parallel()
	product, cart := cached(t, "product", "product:{<id>}x2"), cached(t, "cart", "cart:{<user>}:<item>")
	table, err := records.NewTable(product, cart)
	require.NoError(t, err)
	plain, err := table.Plain()
	require.NoError(t, err)
	product, err = plain.Cache("product")
	require.NoError(t, err)
	require.Equal(t, "product:<id>x2", product.Pattern)
	for _, id := range []string{"1", "x2", "x", "a b", "{", "1x2"} {
		key := product.KeyOf(id)
		require.Same(t, product, plain.Of(key), key)
		got, ok := product.IDOf(key)
		require.True(t, ok, key)
		require.Equal(t, id, got)
	}
	require.Equal(t, "product:1x2", product.KeyOf("1"))
	require.Equal(t, "cart:ann:7:8", cart.In(true).KeyOf("ann:7:8"))
	require.Equal(t, "cache_load:ann:cart:7:8", cart.In(true).LoadKey("ann:7:8"))

	for pattern, want := range map[string]string{
		"product:old:{<id>}": "product:old:{<id>} without braces can be a key of product, which is product:<id>x2",
		"pro{<id>}":          "pro{<id>} without braces can be a key of product, which is product:<id>x2",
		"session:x{<id>}":    "can be a key of session, which is session:<user>:<hash>",
		"env_{<id>}":         "can be a key of setting, which is env_vars:<name>",
		"mm.queue{<id>}":     "can be a key of queue-definitions, which is mm.queues",
	} {
		table, err := records.NewTable(cached(t, "product", "product:{<id>}x2"), cached(t, "other", pattern))
		require.NoError(t, err, pattern)
		_, err = table.Plain()
		require.ErrorContains(t, err, want)
		var twice *records.DuplicateError
		require.ErrorAs(t, err, &twice)
		require.Equal(t, 1, twice.At)
	}
	table, err = records.NewTable(cached(t, "other", "env_vars.{<id>}"), cached(t, "another", "mm.queues.{<id>}"))
	require.NoError(t, err)
	_, err = table.Plain()
	require.NoError(t, err, "one key can't be that of an ID")
}
