package managed

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLongPath(t *testing.T) {
	t.Parallel()
	dir := longDir(t)
	r := startReady(t, Options{DataDir: dir})
	set(t, r.client(t), "key", "kept")

	require.LessOrEqual(t, len(r.Socket()), maxSocketPath)
	place := filepath.Dir(r.Socket())
	require.NotEqual(t, dir, place)
	info, err := os.Stat(place)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	info, err = os.Stat(r.Socket())
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	found, err := Find(dir)
	require.NoError(t, err)
	require.Equal(t, r.Address(), found)

	r.stop(t)
	_, err = Find(dir)
	require.ErrorContains(t, err, "no service runs one")
	require.NoDirExists(t, place)
	require.DirExists(t, filepath.Join(dir, "appendonlydir"))
	require.NoFileExists(t, filepath.Join(dir, linkName))
}

func TestOddPath(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a \"b\\ 'c' #%41?\n\t é")
	r := startReady(t, Options{DataDir: dir})
	set(t, r.client(t), "key", "kept")
	require.DirExists(t, filepath.Join(dir, "appendonlydir"))
}

func TestRememberedSocketDirMustBePrivate(t *testing.T) {
	t.Parallel()
	dir := longDir(t)
	require.NoError(t, os.Mkdir(dir, 0o700))
	open := t.TempDir()
	require.NoError(t, os.Chmod(open, 0o755))
	require.NoError(t, os.Symlink(open, filepath.Join(dir, linkName)))

	place, err := placeSocket(dir)
	require.NoError(t, err)
	require.NotEqual(t, open, place.dir)
	again, err := placeSocket(dir)
	require.NoError(t, err)
	require.Equal(t, place, again, "the new one is remembered")
	require.NoError(t, place.clean())
	require.DirExists(t, open)
}

func TestShortDirPassesOverLongParents(t *testing.T) {
	t.Parallel()
	long := longDir(t)
	require.NoError(t, os.Mkdir(long, 0o700))
	dir, err := makeShortDir(long, "/tmp")
	require.NoError(t, err)
	require.Equal(t, "/tmp", filepath.Dir(dir))
	require.NoError(t, os.Remove(dir))
	entries, err := os.ReadDir(long)
	require.NoError(t, err)
	require.Empty(t, entries)

	_, err = makeShortDir(long)
	require.Error(t, err)
}

func TestPathAtTheLimitStaysInTheDataDir(t *testing.T) {
	t.Parallel()
	const socketPart = len("/" + socketName)
	fits := "/" + strings.Repeat("d", maxSocketPath-socketPart-1)
	place, err := placeSocket(fits)
	require.NoError(t, err)
	require.Equal(t, socket{path: fits + "/" + socketName}, place)
	require.Len(t, place.path, maxSocketPath)
}
