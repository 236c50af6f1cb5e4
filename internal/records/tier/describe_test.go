package tier_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/internal/records/site"
	"github.com/tidemark-dev/tidemark/internal/records/tier"
	"github.com/tidemark-dev/tidemark/shard"
)

type entry = shard.Entry[string, []byte]

func describe(t testing.TB, kind *records.Kind) tier.Description {
	t.Helper()
	d, err := tier.Describe(kind)
	require.NoError(t, err)
	return d
}

func TestKinds(t *testing.T) {
	t.Parallel()
	for _, k := range site.Community().Table.Caches() {
		d := describe(t, k)
		require.NoError(t, shard.CheckName("cache", d.Cache))
		found, err := tier.Find(site.Community().Table, k.Name)
		require.NoError(t, err)
		require.Same(t, k, found)
	}
	for _, kind := range []*records.Kind{records.SessionKind, records.SettingKind, records.CacheLoadKind, records.CacheTagKind,
		records.ViewedKind} {
		_, err := tier.Describe(kind)
		require.ErrorIs(t, err, tier.ErrKind)
		_, err = tier.Find(site.Community().Table, kind.Name)
		require.ErrorIs(t, err, tier.ErrKind)
	}
	require.Equal(t, uint64(0xef46db3751d8e999), shard.HashString(""),
		"xxhash with seed 0: clients in other languages make the same")
}

// Too long values aren't encoded, and any other malformed input isn't decoded.
func TestCodecs(t *testing.T) {
	t.Parallel()
	d := describe(t, site.Kind("author"))
	long := strings.Repeat("x", records.MaxQueryBytes+1)
	for _, ids := range [][]string{{""}, {long}, make([]string, shard.MaxKeys+1)} {
		_, err := d.Keys.Append(nil, ids)
		require.ErrorIs(t, err, shard.ErrUndecodable)
	}
	for _, e := range []entry{{ID: ""}, {ID: long}, {ID: "1", Value: make([]byte, site.Kind("author").MaxBytes+1)}} {
		_, err := d.Values.Append(nil, []entry{e})
		require.ErrorIs(t, err, shard.ErrUndecodable)
	}
	for _, wrong := range []string{"\x00", "\x02a", "\x80", "\x81\x00a", "\x81\x04" + long,
		"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", strings.Repeat("\x01a", shard.MaxKeys+1)} {
		_, err := d.Keys.Decode([]byte(wrong))
		require.ErrorIs(t, err, shard.ErrUndecodable, "%.20q", wrong)
		_, err = d.Values.Decode([]byte(wrong))
		require.ErrorIs(t, err, shard.ErrUndecodable, "%.20q", wrong)
	}
	_, err := d.Values.Decode(append([]byte("\x01a\x81\x80\x40"), make([]byte, 1<<20+1)...))
	require.ErrorIs(t, err, shard.ErrUndecodable)
}

// Decodable input is the encoding of its decoded form.
func FuzzCodecs(f *testing.F) {
	d := describe(f, site.Kind("author"))
	keys, err := d.Keys.Append(nil, []string{"1", strings.Repeat("é", 100)})
	require.NoError(f, err)
	values, err := d.Values.Append(nil, []entry{{ID: "1", Value: []byte(`{"id":1}`)}, {ID: "2"}})
	require.NoError(f, err)
	f.Add(keys)
	f.Add(values)
	f.Fuzz(func(t *testing.T, data []byte) {
		if ids, err := d.Keys.Decode(data); err == nil {
			again, err := d.Keys.Append(nil, ids)
			require.NoError(t, err)
			require.True(t, bytes.Equal(data, again))
		}
		if entries, err := d.Values.Decode(data); err == nil {
			again, err := d.Values.Append(nil, entries)
			require.NoError(t, err)
			require.True(t, bytes.Equal(data, again))
		}
	})
}
