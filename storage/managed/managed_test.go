package managed

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/test/redistest"
)

const (
	endedByItself = "the managed redis ended by itself"
	answers       = "the managed redis answers"
	leftBehind    = "a redis that an earlier service left behind"
)

func TestChildIsPrivateAndDurable(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(shortDir(t), "data")
	r := startReady(t, Options{DataDir: dir})

	info, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	info, err = os.Stat(r.Socket())
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	require.Equal(t, filepath.Join(dir, "redis.sock"), r.Socket())
	require.Equal(t, "unix://"+r.Socket(), r.Address())

	client := r.client(t)
	for name, want := range map[string]string{
		"port": "0", "appendonly": "yes", "appendfsync": "everysec", "save": "", "dir": dir,
		"maxmemory-policy": "noeviction", "aof-load-truncated": "yes", "enable-debug-command": "no",
	} {
		got, err := client.Do(t.Context(), client.B().ConfigGet().Parameter(name).Build()).AsStrMap()
		require.NoError(t, err)
		require.Equal(t, map[string]string{name: want}, got)
	}

	pid := childPID(t, dir)
	group, err := syscall.Getpgid(pid)
	require.NoError(t, err)
	require.Equal(t, pid, group, "a Ctrl-C for the service must not reach the child")
}

// TestFilesArePrivate creates the data directory as an operator may have done, with files that others may read.
func TestFilesArePrivate(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(shortDir(t), "data")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "appendonlydir"), 0o755))
	require.NoError(t, os.Chmod(dir, 0o755))
	r := startReady(t, Options{DataDir: dir})
	set(t, r.client(t), "key", "secret")

	require.NoError(t, filepath.WalkDir(dir, func(path string, file fs.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := file.Info()
		require.NoError(t, err)
		if path != dir {
			require.Zero(t, info.Mode().Perm()&0o077, "%s is %s", path, info.Mode())
		}
		return nil
	}))
	require.FileExists(t, filepath.Join(dir, "appendonlydir", "appendonly.aof.manifest"))
	require.Contains(t, r.log.String(), "other users may read the data directory")
}

func TestStopLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := startReady(t, Options{DataDir: dir})
	pid := childPID(t, dir)

	r.stop(t)

	require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH)
	require.ErrorIs(t, syscall.Kill(-pid, 0), syscall.ESRCH)
	require.NoFileExists(t, r.Socket())
	require.ErrorContains(t, r.Ready(t.Context()), "stopped")
	require.Error(t, r.Run(t.Context()), "Run a second time")
	require.NotContains(t, r.log.String(), endedByItself)
}

func TestDataSurvivesRestartOfService(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := startReady(t, Options{DataDir: dir})
	set(t, first.client(t), "key", "kept")
	first.stop(t)

	second := startReady(t, Options{DataDir: dir})
	requireKept(t, second.client(t))
}

func TestKilledChildIsStartedAgainWithItsData(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := startReady(t, Options{DataDir: dir})
	client := r.client(t)
	set(t, client, "key", "kept")
	awaitWritten(t, client)
	pid := childPID(t, dir)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))

	r.log.await(answers, 2)

	requireKept(t, r.client(t))
	require.NotEqual(t, pid, childPID(t, dir))
	require.Contains(t, r.log.String(), "level=ERROR msg=\""+endedByItself)
	require.Contains(t, r.log.String(), "signal: killed")
	require.NoError(t, r.Ready(t.Context()), "Ready stays")
}

func TestRestartIsTriedUntilItSucceeds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := startReady(t, Options{DataDir: dir})
	client := r.client(t)
	set(t, client, "key", "kept")
	awaitWritten(t, client)

	manifest := filepath.Join(dir, "appendonlydir", "appendonly.aof.manifest")
	whole, err := os.ReadFile(manifest)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(manifest, []byte("nonsense\n"), 0o600))
	require.NoError(t, syscall.Kill(childPID(t, dir), syscall.SIGKILL))
	r.log.await(endedByItself, 3)
	require.NoError(t, os.WriteFile(manifest, whole, 0o600))

	r.log.await(answers, 2)
	requireKept(t, r.client(t))
}

func TestFirstStartThatFailsIsReported(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "appendonlydir"), 0o700))
	manifest := filepath.Join(dir, "appendonlydir", "appendonly.aof.manifest")
	require.NoError(t, os.WriteFile(manifest, []byte("nonsense\n"), 0o600))

	r := start(t, Options{DataDir: dir})

	err := r.Ready(t.Context())
	require.ErrorContains(t, err, "exit status 1")
	require.ErrorContains(t, err, "Invalid AOF manifest file format", "what the child printed last")
	require.Equal(t, err, <-r.ended)

	again, err := Open(Options{DataDir: dir})
	require.NoError(t, err, "the lock is released")
	require.NoError(t, again.Close())
}

func TestWhatTheChildForkedEndsWithIt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := start(t, Options{DataDir: dir, Binary: "./testdata/forks/redis-server"})

	require.ErrorContains(t, <-r.ended, "left behind")

	awaitChildGone(t, dir)
}

func TestHungChildIsKilledAtStop(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := startReady(t, Options{DataDir: dir, StopTimeout: 100 * time.Millisecond})
	pid := childPID(t, dir)
	require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))

	r.stop(t)

	require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH)
	require.Contains(t, r.log.String(), "level=WARN msg=\"the managed redis did not end in good order\"")
}

func TestTruncatedTailIsLoaded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := startReady(t, Options{DataDir: dir})
	set(t, first.client(t), "key", "kept")
	set(t, first.client(t), "last", "cut off")
	first.stop(t)
	file := filepath.Join(dir, "appendonlydir", "appendonly.aof.1.incr.aof")
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.NoError(t, os.Truncate(file, info.Size()-3))

	second := startReady(t, Options{DataDir: dir})
	client := second.client(t)
	requireKept(t, client)
	n, err := client.Do(t.Context(), client.B().Exists().Key("last").Build()).AsInt64()
	require.NoError(t, err)
	require.Zero(t, n)
}

// A power loss can leave zeros at the end of the file, which Redis doesn't load.
func TestZerosAtTheEndAreReportedFirst(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := startReady(t, Options{DataDir: dir})
	set(t, first.client(t), "key", "kept")
	first.stop(t)
	file, err := os.OpenFile(filepath.Join(dir, appendDir, "appendonly.aof.1.incr.aof"), os.O_WRONLY|os.O_APPEND, 0)
	require.NoError(t, err)
	_, err = file.Write(make([]byte, 4096))
	require.NoError(t, err)
	require.NoError(t, file.Close())

	err = start(t, Options{DataDir: dir}).Ready(t.Context())

	cause, output, found := strings.Cut(err.Error(), "exit status 1")
	require.True(t, found, err)
	require.Contains(t, cause, "Bad file format reading the append only file")
	require.Contains(t, cause, "redis-check-aof --fix")
	require.Contains(t, output, "it printed last")
}

// The manifest is missing, as after a restore of some of the files.
func TestDataWithoutManifestIsRefused(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(t *testing.T, dir string) (found string){
		"the first file": func(t *testing.T, dir string) string {
			require.NoError(t, os.Remove(filepath.Join(dir, appendDir, manifestName)))
			return "appendonly.aof.1.incr.aof"
		},
		"a snapshot alone": func(t *testing.T, dir string) string {
			require.NoError(t, os.RemoveAll(filepath.Join(dir, appendDir)))
			require.NoError(t, os.WriteFile(filepath.Join(dir, snapshotName), []byte("REDIS0011"), 0o600))
			return "dump.rdb"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			first := startReady(t, Options{DataDir: dir})
			set(t, first.client(t), "key", "kept")
			first.stop(t)
			manifest, err := os.ReadFile(filepath.Join(dir, appendDir, manifestName))
			require.NoError(t, err)
			found := lose(t, dir)

			err = start(t, Options{DataDir: dir}).Ready(t.Context())

			require.ErrorIs(t, err, ErrNoManifest)
			require.ErrorContains(t, err, found)
			if found == snapshotName {
				return
			}
			require.NoError(t, os.WriteFile(filepath.Join(dir, appendDir, manifestName), manifest, 0o600))
			requireKept(t, startReady(t, Options{DataDir: dir}).client(t))
		})
	}
}

// Base files that have data, although Redis has never rewritten them.
func TestFirstBaseFileWithoutManifestIsRefused(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(t *testing.T, dir string){
		singleName: func(t *testing.T, dir string) { // Redis 7 has taken it over from Redis 6
			t.Helper()
			require.NoError(t, os.WriteFile(filepath.Join(dir, singleName), []byte(setKept), 0o600))
			startReady(t, Options{DataDir: dir}).stop(t)
		},
		firstBaseName: func(t *testing.T, dir string) { // of a Redis that had data before its append-only file
			t.Helper()
			node := redistest.Start(t, redistest.Options{})
			set(t, node.Client(), "key", "kept")
			require.NoError(t, node.Do(t, "CONFIG", "SET", "appendonly", "yes").Error())
			awaitRewritten(t, node.Client())
			node.Stop(t)
			require.NoError(t, os.CopyFS(filepath.Join(dir, appendDir), os.DirFS(filepath.Join(node.Dir(), appendDir))))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			prepare(t, dir)
			manifest, err := os.ReadFile(filepath.Join(dir, appendDir, manifestName))
			require.NoError(t, err)
			require.NoError(t, os.Remove(filepath.Join(dir, appendDir, manifestName)))

			err = start(t, Options{DataDir: dir}).Ready(t.Context())

			require.ErrorIs(t, err, ErrNoManifest)
			require.ErrorContains(t, err, ": "+filepath.Join(appendDir, name))
			require.NoError(t, os.WriteFile(filepath.Join(dir, appendDir, manifestName), manifest, 0o600))
			requireKept(t, startReady(t, Options{DataDir: dir}).client(t))
		})
	}
}

// setKept sets the key of requireKept, in the form of an append-only file.
const setKept = "*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$4\r\nkept\r\n"

// A data directory of Redis 6 has a single append-only file, which Redis loads, and snapshots.
func TestSingleFileIsLoaded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, singleName), []byte(setKept), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, snapshotName), []byte("REDIS0009"), 0o600))
	requireKept(t, startReady(t, Options{DataDir: dir}).client(t))
}

// A first start that was cut short has left files, but no data.
func TestFirstStartThatWasCutShort(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	startReady(t, Options{DataDir: dir}).stop(t)
	require.NoError(t, os.Remove(filepath.Join(dir, appendDir, manifestName)))
	require.NoError(t, os.WriteFile(filepath.Join(dir, appendDir, "temp-1.aof"), []byte("x"), 0o600))
	set(t, startReady(t, Options{DataDir: dir}).client(t), "key", "value")
}

func TestReadyWaitsUntilTheDataIsLoaded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const keys = 8192 // while it loads, Redis looks at its clients once in 1024 commands
	first := startReady(t, Options{DataDir: dir})
	client := first.client(t)
	writes := make(rueidis.Commands, keys)
	for i := range writes {
		writes[i] = client.B().Set().Key(strconv.Itoa(i)).Value("value").Build()
	}
	for _, answer := range client.DoMulti(t.Context(), writes...) {
		require.NoError(t, answer.Error())
	}
	first.stop(t)

	second := startReady(t, Options{DataDir: dir, Binary: "./testdata/slow/redis-server"})
	client = second.client(t)
	n, err := client.Do(t.Context(), client.B().Dbsize().Build()).AsInt64()
	require.NoError(t, err)
	require.EqualValues(t, keys, n)
}

func TestStaleSocketIsReplaced(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	var l net.ListenConfig
	stale, err := l.Listen(t.Context(), "unix", filepath.Join(dir, socketName))
	require.NoError(t, err)
	stale.(*net.UnixListener).SetUnlinkOnClose(false)
	require.NoError(t, stale.Close())

	r := startReady(t, Options{DataDir: dir})
	set(t, r.client(t), "key", "value")
}

func TestDataDirIsLocked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, err := Open(Options{DataDir: dir})
	require.NoError(t, err)

	_, err = Open(Options{DataDir: dir})
	require.ErrorIs(t, err, ErrLocked)
	require.ErrorContains(t, err, dir)
	require.ErrorContains(t, err, "another tidemark service")

	require.NoError(t, first.Close())
	require.NoError(t, first.Close(), "a second time")
	require.Error(t, first.Run(t.Context()))
	require.Error(t, first.Ready(t.Context()))
	second, err := Open(Options{DataDir: dir})
	require.NoError(t, err)
	require.NoError(t, second.Close())
}

// TestDataDirOfAnother: who may not use the data directory is told whose it is. Root may, so the error is made.
func TestDataDirOfAnother(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o755))
	s := &Server{dataDir: dir}
	user := strconv.Itoa(os.Getuid())
	for _, path := range []string{filepath.Join(dir, lockName), filepath.Join(dir, appendDir, "missing")} {
		err := s.withOwner(&fs.PathError{Op: "open", Path: path, Err: syscall.EACCES})
		require.ErrorIs(t, err, fs.ErrPermission)
		require.ErrorContains(t, err, "permission denied: "+dir+" is of user "+user+", with mode drwxr-xr-x, ")
		require.ErrorContains(t, err, `"chown -R `+user+":"+strconv.Itoa(os.Getgid())+" "+dir+`"`)
		require.ErrorContains(t, err, "TIDEMARK_DATA_DIR")
	}
	full := &fs.PathError{Op: "open", Path: dir, Err: syscall.ENOSPC}
	require.Equal(t, full, s.withOwner(full))
}

func TestDataDirThatIsAFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := Open(Options{DataDir: file})
	require.ErrorIs(t, err, syscall.ENOTDIR)
}

func TestReadyEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s, err := Open(Options{DataDir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	why := errors.New("waited enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	require.ErrorIs(t, s.Ready(ctx), why)
}

func TestStopBeforeStart(t *testing.T) {
	t.Parallel()
	s, err := Open(Options{DataDir: t.TempDir()})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, s.Run(ctx))
	require.ErrorContains(t, s.Ready(t.Context()), "stopped")
}
