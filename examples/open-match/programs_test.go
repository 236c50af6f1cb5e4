// Package openmatch_test runs the programs of this folder on the service.
package openmatch_test

import (
	"bufio"
	"encoding/json"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/test/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// TestPrograms: each player is matched with another one, in a full match or through a backfill.
func TestPrograms(t *testing.T) {
	t.Parallel()
	built := t.TempDir() + "/"
	build := exec.CommandContext(t.Context(), "go", "build", "-o", built, "../../cmd/tidemark", "./director", "./frontend",
		"./matchfunction")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	for name, test := range map[string]struct {
		patience string
		players  []string // each starts the frontend, after the one before it has ended
	}{
		"full matches": {patience: "1h", players: []string{"4"}},
		"backfills":    {patience: "0s", players: []string{"3", "1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tidemark := start(t, built+"tidemark", "tidemark is ready", "serve", "--log-format", "json",
				"--redis", redistest.Standalone(t).URL(), "--key-prefix", redistest.Prefix(t),
				"--listen", "127.0.0.1:0", "--admin-listen", "off", "--grpc-listen", "off", "--callout-allow", "127.0.0.1",
				"--openmatch-listen", "frontend=127.0.0.1:0,backend=127.0.0.1:0,query=127.0.0.1:0")
			var on struct{ Frontend, Backend, Query string }
			require.NoError(t, json.Unmarshal([]byte(tidemark), &on))
			_, function, _ := strings.Cut(start(t, built+"matchfunction", "the match function listens",
				"-query", on.Query, "-listen", "127.0.0.1:0", "-patience", test.patience), " on ")
			start(t, built+"director", "",
				"-backend", on.Backend, "-frontend", on.Frontend, "-function", function, "-every", "50ms")

			at := map[string]int{} // players by the address of their game server
			for _, players := range test.players {
				out, err := exec.CommandContext(t.Context(), built+"frontend", "-frontend", on.Frontend, "-mode", "mode.race",
					"-players", players).CombinedOutput()
				require.NoError(t, err, string(out))
				for line := range strings.Lines(string(out)) {
					_, server, _ := strings.Cut(strings.TrimSpace(line), " ")
					at[server]++
				}
			}
			require.Len(t, at, 2)
			for server, players := range at {
				require.Equal(t, 2, players, server)
			}
		})
	}
}

// start starts a program, and returns the line of its log that contains a text. It ends with the test.
func start(t *testing.T, program, until string, args ...string) (line string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	log, write := io.Pipe()
	cmd.Stdout, cmd.Stderr = write, write
	require.NoError(t, cmd.Start())
	lines, found, read := bufio.NewScanner(log), make(chan string, 1), make(chan struct{})
	go func() {
		defer close(read)
		defer close(found)
		for waiting := until != ""; lines.Scan(); {
			t.Log(filepath.Base(program), lines.Text())
			if waiting && strings.Contains(lines.Text(), until) {
				found <- lines.Text()
				waiting = false
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGKILL) // the programs of Open Match have no other way to end
		_ = cmd.Wait()
		require.NoError(t, write.Close())
		<-read
	})
	if until != "" {
		line = <-found
		require.NotEmpty(t, line, "%s has ended", program)
	}
	return line
}
