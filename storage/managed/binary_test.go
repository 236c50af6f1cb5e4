package managed

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// inPath returns a lookup of binaries in the given directories of testdata only.
func inPath(dirs ...string) func(string) (string, error) {
	return func(name string) (string, error) {
		for _, dir := range dirs {
			if path, err := exec.LookPath(filepath.Join("testdata", dir, name)); err == nil {
				return path, nil
			}
		}
		return "", exec.ErrNotFound
	}
}

func TestNoBinary(t *testing.T) {
	t.Parallel()
	_, err := findBinary("", inPath())
	require.ErrorIs(t, err, ErrNoBinary)
	for _, help := range []string{"apt-get install redis-server", "brew install redis", "--redis"} {
		require.ErrorContains(t, err, help)
	}

	dir := filepath.Join(t.TempDir(), "data")
	_, err = Open(Options{Binary: "no-such-redis", DataDir: dir})
	require.ErrorIs(t, err, ErrNoBinary)
	require.ErrorContains(t, err, "no-such-redis")
	require.NoDirExists(t, dir)
}

func TestBinaryTooOld(t *testing.T) {
	t.Parallel()
	_, err := findBinary("", inPath("too-old"))
	require.ErrorIs(t, err, ErrTooOld)
	require.ErrorContains(t, err, "6.2.14")

	_, err = Open(Options{Binary: "testdata/too-old/redis-server", DataDir: t.TempDir()})
	require.ErrorIs(t, err, ErrTooOld)
}

func TestValkeyWhereRedisIsMissingOrTooOld(t *testing.T) {
	t.Parallel()
	for _, dirs := range [][]string{{"valkey"}, {"too-old", "valkey"}} {
		path, err := findBinary("", inPath(dirs...))
		require.NoError(t, err)
		require.Equal(t, "testdata/valkey/valkey-server", path)
	}
	path, err := findBinary("", inPath("valkey", "forks"))
	require.NoError(t, err)
	require.Equal(t, "testdata/forks/redis-server", path, "redis-server is the first choice")
}

func TestBinaryThatIsNoServer(t *testing.T) {
	t.Parallel()
	_, err := findBinary("false", exec.LookPath)
	require.ErrorContains(t, err, "exit status 1")
	_, err = findBinary("echo", exec.LookPath)
	require.ErrorContains(t, err, "no version")
}

func TestParseVersion(t *testing.T) {
	t.Parallel()
	for printed, want := range map[string]struct {
		version string
		major   int
	}{
		"Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=ae4d7c971a948f0\n": {"7.0.15", 7},
		"Valkey server v=8.1.0 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=0\n":               {"8.1.0", 8},
		"Server v=7.2.5 sha=00000000:0":                       {"7.2.5", 7},
		"Redis server v=10.2-rc1 sha=0":                       {"10.2-rc1", 10},
		"Redis server v=255.255.255 sha=00000000:0 malloc=x ": {"255.255.255", 255},
	} {
		version, major, err := parseVersion(printed)
		require.NoError(t, err)
		require.Equal(t, want.version, version)
		require.Equal(t, want.major, major)
	}
}
