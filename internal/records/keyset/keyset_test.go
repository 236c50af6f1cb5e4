package keyset_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/records/keyset"
	"github.com/tidemark-dev/tidemark/internal/records/tokens"
)

var _ tokens.Sealer = (*keyset.Keyset)(nil)

func create(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "keys.json")
	require.NoError(t, keyset.Create(path))
	return path
}

func open(t *testing.T, path string) *keyset.Keyset {
	t.Helper()
	k, err := keyset.Open(path)
	require.NoError(t, err)
	return k
}

var purpose = []byte("oauth_access:{ann}:google")

func seal(t *testing.T, k *keyset.Keyset) []byte {
	t.Helper()
	sealed, err := k.Seal([]byte("secret"), purpose)
	require.NoError(t, err)
	require.NotContains(t, string(sealed), "secret")
	return sealed
}

func requireOpens(t *testing.T, k *keyset.Keyset, sealed []byte) {
	t.Helper()
	value, err := k.Open(sealed, purpose)
	require.NoError(t, err)
	require.Equal(t, "secret", string(value))
}

func TestSeal(t *testing.T) {
	t.Parallel()
	k := open(t, create(t))
	sealed := seal(t, k)
	requireOpens(t, k, sealed)
	require.NotEqual(t, sealed, seal(t, k))
	_, err := k.Open(sealed, []byte("oauth_access:{bob}:google"))
	require.ErrorIs(t, err, keyset.ErrNotSealed, "a value that was copied to another user's key")
	for i := range sealed {
		changed := append([]byte{}, sealed...)
		changed[i] ^= 1
		_, err := k.Open(changed, purpose)
		require.Error(t, err, "byte %d was changed", i)
	}
	for _, odd := range [][]byte{nil, []byte("plain text of an earlier program"), sealed[:5], sealed[:20]} {
		_, err := k.Open(odd, purpose)
		require.ErrorIs(t, err, keyset.ErrNotSealed)
	}
	_, err = open(t, create(t)).Open(sealed, purpose)
	require.ErrorIs(t, err, keyset.ErrUnknownKey)
}

// TestRotation goes through the steps for several servers: none receives a value sealed with a key that it doesn't
// have.
func TestRotation(t *testing.T) {
	t.Parallel()
	path := create(t)
	first := open(t, path)
	old := seal(t, first)
	require.NoError(t, keyset.Stage(path))
	staged := open(t, path)
	requireOpens(t, first, seal(t, staged))
	require.NoError(t, keyset.Rotate(path))
	rotated := open(t, path)
	require.Equal(t, 2, rotated.Keys(), "the staged key is used")
	sealed := seal(t, rotated)
	requireOpens(t, staged, sealed)
	requireOpens(t, rotated, old)
	_, err := first.Open(sealed, purpose)
	require.ErrorIs(t, err, keyset.ErrUnknownKey)
	require.NoError(t, keyset.Rotate(path))
	again := open(t, path)
	require.Equal(t, 3, again.Keys())
	requireOpens(t, again, old)
	_, err = rotated.Open(seal(t, again), purpose)
	require.ErrorIs(t, err, keyset.ErrUnknownKey)
}

func TestFiles(t *testing.T) {
	t.Parallel()
	path := create(t)
	require.NoError(t, keyset.Rotate(path))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	require.ErrorIs(t, keyset.Create(path), os.ErrExist, "no keyset is replaced")
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, entries, 1)

	for mode, problem := range map[os.FileMode]string{0o644: "chmod 0600", 0o660: "chmod 0600", 0o604: "chmod 0600",
		0o640: "", 0o400: ""} {
		require.NoError(t, os.Chmod(path, mode))
		if _, err := keyset.Open(path); problem == "" {
			require.NoError(t, err, mode)
		} else {
			require.ErrorContains(t, err, problem, mode)
		}
	}
	require.NoError(t, os.Chmod(path, 0o600))
	for _, text := range []string{
		"", "{}", "[]", "null", `{"primaryKeyId":1,"key":[]}`, string(whole[:len(whole)/2]), strings.Repeat(" ", 1<<17),
		strings.ReplaceAll(string(whole), "AesGcmKey", "HmacKey"), strings.ReplaceAll(string(whole), `"TINK"`, `"RAW"`),
		strings.Replace(string(whole), `"primaryKeyId":`, `"primaryKeyId":1`, 1),
	} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := keyset.Open(path)
		require.ErrorContains(t, err, path)
		require.NotRegexp(t, `[A-Za-z0-9+]{40}`, strings.ReplaceAll(err.Error(), path, ""), "no key material")
		require.Error(t, keyset.Rotate(path))
	}
	_, err = keyset.Open(path + ".missing")
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestKeysAreBounded(t *testing.T) {
	t.Parallel()
	path := create(t)
	for range keyset.MaxKeys - 1 {
		require.NoError(t, keyset.Stage(path))
	}
	require.Equal(t, keyset.MaxKeys, open(t, path).Keys(), "as many as allowed can be read")
	require.ErrorContains(t, keyset.Stage(path), "at most 100")
}
