package storetest

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// KeyKind is a kind of key that belongs to a name: of a channel or of a queue.
type KeyKind struct {
	Key   func(prefix, name, part string) string
	Parts *rapid.Generator[string] // parts of the key besides the name; nil: none
}

// AnyName generates valid names, often tricky ones, which look like parts of keys.
func AnyName(tricky ...string) *rapid.Generator[string] {
	return rapid.OneOf(rapid.SampledFrom(tricky), Names())
}

// RequireOwnKeys expects the keys of a name to share its slot and to begin with a base, and keys to be equal only if
// their kinds, names and parts are.
func RequireOwnKeys(t *testing.T, base string, names *rapid.Generator[string], kinds map[string]KeyKind) {
	t.Helper()
	type made struct{ kind, name, part string }
	keys := rapid.Custom(func(t *rapid.T) made {
		m := made{kind: rapid.SampledFrom(slices.Sorted(maps.Keys(kinds))).Draw(t, "kind"), name: names.Draw(t, "name")}
		if parts := kinds[m.kind].Parts; parts != nil {
			m.part = parts.Draw(t, "part")
		}
		return m
	})
	rapid.Check(t, func(t *rapid.T) {
		prefix := rapid.SampledFrom([]string{"", "mm1:", "c.", "mm."}).Draw(t, "prefix")
		key := func(m made) string { return kinds[m.kind].Key(prefix, m.name, m.part) }
		a, b := keys.Draw(t, "a"), keys.Draw(t, "b")
		require.Equal(t, a.name, HashTag(key(a)))
		require.True(t, strings.HasPrefix(key(a), prefix+base+"{"))
		require.Equal(t, a == b, key(a) == key(b), "%s and %s", key(a), key(b))

		seen := map[string]string{} // kinds by key, for the same name and part
		for kind, k := range kinds {
			if m := (made{kind: kind, name: a.name, part: a.part}); k.Parts == nil || k.Parts == kinds[a.kind].Parts {
				require.NotContains(t, seen, key(m), "%s and %s", kind, seen[key(m)])
				seen[key(m)] = kind
			}
		}
	})
}

// Names generates valid names of channels, subscribers and messages.
func Names() *rapid.Generator[string] {
	return rapid.StringMatching(`[0-9A-Za-z][0-9A-Za-z_.:-]{0,127}`)
}

// HashTag returns the part of a key that determines its slot in a cluster.
func HashTag(key string) string {
	_, after, _ := strings.Cut(key, "{")
	tag, _, found := strings.Cut(after, "}")
	if !found || tag == "" {
		return key
	}
	return tag
}
